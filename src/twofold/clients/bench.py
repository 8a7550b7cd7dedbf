"""A benchmark of one server: what it is asked once, and the loads that are put on it."""

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, TypeVar

from twofold.clients.api import LENGTH_FIELDS, Api, served_model
from twofold.clients.http import AnswerError, Client
from twofold.clients.load import Watch, apply
from twofold.clients.measured import Measured
from twofold.clients.prompts import Vocabulary, texts, vocabulary_of
from twofold.clients.target import Target
from twofold.errors import SpecError
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload

T = TypeVar("T")
SALT_BITS = 63


class Bench:
    """A server that answers, whose optional fields and single-token words are known. Close it after use.

    SpecError when ``url`` is none, when nothing answers there, or when the server cannot be measured.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        chat: bool = False,
        key: str | None = None,
        timeout_s: float = 600.0,
    ) -> None:
        self.url = url
        self._client = Client(Target.parse(url), key, timeout_s)
        self._runner = asyncio.Runner()
        try:
            self.api, self.vocabulary = self._run(self._meet(model, chat))
        except AnswerError as failure:
            self.close()
            raise SpecError("URL", url, f"accepted: a server that answers ({failure})") from None
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Bench":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._run(self._client.close())
        self._runner.close()

    @property
    def model(self) -> str:
        """The model as the server calls it."""
        return self.api.model

    @property
    def forced(self) -> bool:
        """Whether the server takes a field that keeps an answer from ending early."""
        return any(name in self.api.taken for name in LENGTH_FIELDS)

    def load(
        self, workload: Workload, slo: Slo | None = None, concurrency: int | None = None, watch: Watch | None = None
    ) -> Measured:
        """Put ``workload`` on the server, with texts that no earlier load had."""
        pairs = zip(texts(workload, self.vocabulary, secrets.randbits(SALT_BITS)), workload.output_tokens, strict=True)
        bodies = [self.api.body(text, int(output)) for text, output in pairs]
        return Measured(workload, slo, self._run(apply(self.api, workload, bodies, concurrency, watch)), concurrency)

    def summary(self, measured: Measured) -> dict[str, Any]:
        """The summary of a load with the server that it was put on."""
        found = measured.summary()
        client = found["client"] | {"fields": list(self.api.taken)}
        return {"url": self.url, "model": self.model, **found, "client": client}

    async def _meet(self, model: str | None, chat: bool) -> tuple[Api, Vocabulary]:
        api = Api(self._client, await served_model(self._client, model), chat)
        await api.settle()
        return api, await vocabulary_of(api.count)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)


Report = Callable[[int, int, str], None]


def watch_of(report: Report | None, name: str) -> Watch | None:
    """A watch that reports how many requests have ended, and how many are under way; None without a ``report``."""
    if report is None:
        return None

    def watch(outcomes: Any) -> bool:
        ended = sum(outcome.ended_s is not None for outcome in outcomes)
        begun = sum(outcome.due_s is not None for outcome in outcomes)
        failed = sum(outcome.failure is not None for outcome in outcomes)
        text = f"{name}: {ended:,} of {len(outcomes):,} answered, {begun - ended:,} under way"
        report(ended, len(outcomes), f"{text}, {failed:,} failed" if failed else text)
        return False

    return watch
