"""The service that the routes share: the worker, the texts of its model, admission and metrics."""

import asyncio
import time
import uuid

from twofold.engine.params import Params
from twofold.errors import SpecError
from twofold.serve.admission import Admission
from twofold.serve.errors import UNAVAILABLE, ApiError, from_spec
from twofold.serve.flight import Arrival, Flight
from twofold.serve.generation import Choice, Generation
from twofold.serve.grammars import bound_by
from twofold.serve.life import Life
from twofold.serve.link import WorkerLink
from twofold.serve.logs import logger
from twofold.serve.metrics import Metrics
from twofold.serve.otlp import opened_traces
from twofold.serve.params import CLIENT_NAMES
from twofold.serve.protocol import Found, Ready, Stats
from twofold.serve.schema import Sampling
from twofold.serve.settings import Settings, served_group
from twofold.serve.texts import Texts
from twofold.serve.turns import Gate
from twofold.spec.embedded import is_embedded

LOADING = {"Retry-After": "5"}


class Service:
    """One model behind one address."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.name = settings.served_name or settings.worker.model
        self.created = int(time.time())
        self.metrics = Metrics(self.name)
        self.traces = opened_traces(settings.otlp)
        self.admission = Admission(settings.max_queue, settings.ttft_slo_s, time.perf_counter)
        self.link = WorkerLink(settings, self._on_found, self._on_ready, self._on_stats, self._on_restart)
        self.gate = Gate()
        self.ready = asyncio.Event()
        self.draining = False
        self._order = served_group(settings.worker.deployment).order
        self._about: Ready | None = None
        self._texts: Texts | None = None
        self._reading: asyncio.Task[None] | None = None

    @property
    def state(self) -> str:
        """``ready``, or why requests may not be answered now: loading, restarting, draining or stopped."""
        if self.draining:
            return "draining"
        return "loading" if self.link.state == "ready" and not self.ready.is_set() else self.link.state

    @property
    def about(self) -> Ready:
        """What the worker serves; ApiError 503 before it is known."""
        if self._about is None:
            raise _loading()
        return self._about

    @property
    def texts(self) -> Texts:
        """Tokenizer and chat template of the model; ApiError 503 before they are known."""
        if self._texts is None:
            raise _loading()
        return self._texts

    @property
    def longest_prompt(self) -> int:
        """The most tokens of a prompt that is accepted; ApiError 503 before it is known."""
        context = self.about["context"]
        return min(context - 1, self.settings.max_prompt_tokens or context)

    def check_model(self, name: str | None) -> None:
        """Raise a 404 for a model that is not served here."""
        if name is None or name == self.name:
            return
        if not (is_embedded(name) and is_embedded(self.name)):
            message = f"the model {name!r} is not served here; {self.name!r} is"
            raise ApiError(404, message, param="model", code="model_not_found")

    def check_choices(self, count: int) -> None:
        """Raise a 400 when one request asks for more answers than are given."""
        if count > self.settings.max_choices:
            message = f"the request asks for {count} answers, at most {self.settings.max_choices} are given"
            raise ApiError(400, message, param="n", code="invalid_value")

    def check_prompt(self, tokens: list[int], param: str) -> int:
        """How many tokens may follow this prompt; ApiError 400 when it is empty, too long, or has unknown tokens."""
        if not tokens:
            raise ApiError(400, f"{param} has no tokens", param=param, code="invalid_value")
        if len(tokens) > self.longest_prompt:
            message = f"{param} has {len(tokens)} tokens, at most {self.longest_prompt} are accepted"
            raise ApiError(400, message, param=param, code="context_length_exceeded")
        if max(tokens) >= self.about["vocab"]:
            message = f"{param}: token ids are 0 to {self.about['vocab'] - 1}"
            raise ApiError(400, message, param=param, code="invalid_value")
        return self.about["context"] - len(tokens)

    def check_limit(self, asked: int | None, room: int, param: str = "max_tokens") -> int:
        """The tokens to generate at most; ApiError 400 when more are asked for than the context has room for."""
        if asked is not None and asked > room:
            message = f"{param} is {asked}, but the context has room for {room} tokens after the prompt"
            raise ApiError(400, message, param=param, code="context_length_exceeded")
        return room if asked is None else asked

    def begin(
        self,
        prompts: list[tuple[list[int], Params]],
        body: Sampling,
        arrived_s: float,
        shown: tuple[int, ...] = (),
    ) -> Generation:
        """Admit the ``n`` choices of each prompt, given with its parameters; ApiError 429 when that cannot be.

        ``arrived_s`` is when the request came, by ``time.perf_counter``; ``shown`` are special tokens that the text
        keeps. Nothing is sent before the context of the result is entered.
        """
        wanted = [(tokens, params) for tokens, all_ in prompts for params in all_.choices()]
        self._check(wanted, body.priority)
        inbox: asyncio.Queue[Arrival] = asyncio.Queue()
        remaining = self._remaining_s(body, arrived_s)
        choices = []
        for index, (tokens, params) in enumerate(wanted):
            life = Life(len(tokens), arrived_s, time.perf_counter, self.admission, self.metrics)
            flight = Flight(
                uuid.uuid4().hex,
                index,
                tokens,
                params.to_map(),
                inbox,
                priority=body.priority,
                deadline_s=remaining,
                bound_by=bound_by(body),
            )
            text = self.texts.detokenizer(params, body.skip_special_tokens, shown)
            choices.append(Choice(flight, text, life, () if params.include_stop else self._ends(params)))
            self.metrics.request_max_tokens.observe(params.max_tokens or 0)
        self.metrics.request_n.observe(body.n)
        deadline = None if remaining is None else asyncio.get_running_loop().time() + remaining
        return Generation(choices, inbox, self.link.submit, self.link.abort, deadline)

    def _check(self, wanted: list[tuple[list[int], Params]], priority: int) -> None:
        if priority and self._order != "priority":
            message = 'priority is for deployments with order=priority, such as "1B,chunked=512,order=priority"'
            raise ApiError(400, message, param="priority", code="unsupported_parameter")
        self.check_choices(len(wanted))
        try:
            wanted[0][1].check_ids(self.about["vocab"])
        except SpecError as error:
            raise from_spec(error, CLIENT_NAMES.get(error.field)) from None
        try:
            self.admission.check([len(tokens) for tokens, _ in wanted])
        except ApiError as error:
            self.metrics.rejected(error.code or "")
            raise

    def _ends(self, params: Params) -> list[int]:
        """The tokens that end an answer."""
        return [*params.stop_ids, *(() if params.ignore_eos else self.about["eos_ids"])]

    def _remaining_s(self, body: Sampling, arrived_s: float) -> float | None:
        limits = [limit for limit in (body.deadline_s, self.settings.deadline_s) if limit is not None]
        return max(min(limits) - (time.perf_counter() - arrived_s), 0.0) if limits else None

    def _on_found(self, found: Found) -> None:
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._read(found))

    async def _read(self, found: Found) -> None:
        """Get the tokenizer while the worker reads the weights."""
        try:
            self._texts = await asyncio.to_thread(Texts.of, found)
        except SpecError as error:
            self.link.refuse(str(error))
        except Exception as error:
            logger.exception("tokenizer not read")
            self.link.refuse(f"the tokenizer cannot be read: {type(error).__name__}")
        if self._texts is not None and self._about is not None:
            self.ready.set()

    def _on_ready(self, about: Ready) -> None:
        self._about = about
        if self._texts is not None:
            self.ready.set()

    def _on_restart(self) -> None:
        """What the lost worker said of its state holds no longer."""
        self.metrics.restarts.inc()
        self.metrics.stats.latest = {}

    def _on_stats(self, stats: Stats) -> None:
        self.metrics.stats.latest = stats


def _loading() -> ApiError:
    return ApiError(503, "the model is being loaded", kind=UNAVAILABLE, code="loading", headers=LOADING)
