"""The engine as a worker runs it: the model is loaded, the KV pool sized, and messages become calls."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TextIO

from twofold.cost.profile_file import read_specs
from twofold.cost.tables import read_costs
from twofold.engine.decisions import DecisionLog
from twofold.engine.engine import Engine
from twofold.engine.grammar import Grammars
from twofold.engine.load import chat_template, load, located
from twofold.engine.outputs import Output
from twofold.engine.params import Params
from twofold.engine.pool import Pool
from twofold.engine.sampling import Sampler
from twofold.errors import SpecError
from twofold.serve.logs import log
from twofold.serve.memory import free_memory
from twofold.serve.protocol import FOUND, READY, Found, Item, Message, Ready, Stats
from twofold.serve.settings import WorkerSettings, served_group
from twofold.spec import catalog
from twofold.spec.device import Device
from twofold.spec.group import Group
from twofold.spec.slo import Slo

WARM_UP_BLOCKS, WARM_UP_PROMPT = 16, [1, 2, 3]


class EngineRunner:
    """Loads the model and owns its engine; SpecError, in one line, for what cannot be loaded or served.

    ``found`` hears which files the model has before its weights are read.
    """

    def __init__(self, settings: WorkerSettings, found: Callable[[Found], None] | None = None) -> None:
        self._settings, self._group = settings, served_group(settings.deployment)
        self._cost = None if settings.cost is None else read_costs(settings.cost)
        device, tell = costed_device(self._group, settings.device, settings.cost), _log_tenths()
        folder, self._name = located(settings.model, tell)
        if found is not None:
            found({"op": FOUND, "tokenizer": str(folder), "chat_template": chat_template(folder)})
        self._loaded = load(
            folder,
            dtype=settings.dtype,
            device=settings.device,
            quantize=settings.quantize,
            name=self._name,
            progress=tell,
        )
        if (settings.context or 0) > self._loaded.context:
            accepted = f"accepted: up to {self._loaded.context:,} tokens, the context of {self._name}"
            raise SpecError("context", settings.context, accepted)
        self._pool = self._sized_pool()
        self._log = _opened(settings.log_decisions)
        self._decoding: set[str] = set()
        self._stall_s = 0.0
        with ThreadPoolExecutor(1) as beside:
            grammars = beside.submit(self._grammars)
            self._warm_up(device)
        self._engine = self._make(device, self._pool, settings.requests, grammars.result(), self._log)

    def about(self) -> Ready:
        """What is served."""
        return {
            "op": READY,
            "model": self._name,
            "context": self._context(self._pool),
            "blocks": self._pool.blocks,
            "block_tokens": self._pool.block_tokens,
            "eos_ids": sorted(self._loaded.eos_ids),
            "vocab": self._loaded.model.vocab,
        }

    def add(self, message: Message) -> None:
        """Take a request; SpecError when it cannot be run."""
        params = Params.from_map(message["params"])
        self._engine.add(
            message["id"],
            message["tokens"],
            params,
            priority=message["priority"],
            deadline_s=message["deadline_s"],
        )

    def abort(self, request: str) -> None:
        """End a request and free what it holds."""
        self._decoding.discard(request)
        self._engine.abort(request)

    def step(self) -> list[Item]:
        """Run one step and give what the requests have got."""
        began, before = time.perf_counter(), self._engine.stats()["steps_by_kind"]
        outputs = self._engine.step()
        if _prompts_alone(before, self._engine.stats()["steps_by_kind"]):
            self._stall_s += (time.perf_counter() - began) * len(self._decoding)
        for output in outputs:
            (self._decoding.add if output.finish is None else self._decoding.discard)(output.id)
        return [_item(output) for output in outputs]

    def has_work(self) -> bool:
        """Whether a step would do something."""
        return self._engine.has_work

    def stats(self) -> Stats:
        """The state of the scheduler."""
        known = self._engine.stats() | {"decode_stall_s": self._stall_s}
        return {name: known[name] for name in Stats.__annotations__ if known.get(name) is not None}  # type: ignore[return-value]

    def close(self) -> None:
        """End the threads of the engine and the log of its decisions."""
        self._engine.close()
        if self._log is not None:
            self._log.close()

    def _sized_pool(self) -> Pool:
        """A pool in the memory that was given, else in a share of what is free once the weights are there."""
        settings = self._settings
        memory = settings.memory_bytes or int(free_memory(settings.device, self._group.memory_fraction))
        return Pool.sized(
            self._loaded.model,
            settings.dtype,
            settings.device,
            memory_bytes=memory,
            block_tokens=self._group.block_tokens,
        )

    def _context(self, pool: Pool) -> int:
        most = min(self._loaded.context, pool.blocks * pool.block_tokens)
        return min(most, self._settings.context or most)

    def _grammars(self) -> Grammars:
        path = self._loaded.tokenizer_files / "tokenizer.json"
        if not path.is_file():
            raise SpecError("model", path.parent.name, "a folder with a tokenizer.json")
        return Grammars(path.read_text(encoding="utf-8"), self._loaded.model.vocab, sorted(self._loaded.eos_ids))

    def _make(
        self, device: Device, pool: Pool, requests: int, grammars: Grammars | None, decisions: TextIO | None
    ) -> Engine:
        loaded = self._loaded
        sampler = Sampler(
            requests, loaded.model.vocab, ends=loaded.eos_ids, grammars=grammars, device=self._settings.device
        )
        return Engine(
            loaded.decoder,
            pool,
            sampler,
            model=loaded.model,
            group=self._group,
            device=device,
            eos_ids=loaded.eos_ids,
            context=self._context(pool),
            requests=requests,
            cost=self._cost,
            tbt_s=None if self._settings.slo is None else Slo.parse(self._settings.slo).tbt_s,
            decisions=None if decisions is None else DecisionLog(decisions.write),
        )

    def _warm_up(self, device: Device) -> None:
        """Run a few steps on an engine of its own, so that nothing is compiled while somebody waits."""
        loaded, settings = self._loaded, self._settings
        pool = Pool.sized(
            loaded.model, settings.dtype, settings.device, blocks=WARM_UP_BLOCKS, block_tokens=self._group.block_tokens
        )
        engine = self._make(device, pool, 2, None, None)
        engine.add("warm-up", WARM_UP_PROMPT, Params(temperature=0.0, max_tokens=3, ignore_eos=True))
        while engine.has_work:
            engine.step()
        engine.close()


def costed_device(group: Group, runs_on: str, cost: str | None = None) -> Device:
    """The device whose costs the scheduler reckons with: the one of the group, that of a ``cost`` file, or this CPU."""
    if group.device is not None:
        return catalog.device(group.device)
    if cost is not None and cost.endswith(".json"):
        return read_specs(Path(cost)).device
    if runs_on == "cpu":
        return catalog.device("this-cpu")
    raise SpecError("--deploy", None, f'on {runs_on}, name the device that it is, such as "1B@H100,chunked=512"')


def _log_tenths() -> Callable[[str, float], None]:
    """Report progress to the log whenever another tenth of a step is done."""
    last: list[tuple[str, int]] = []

    def report(text: str, share: float) -> None:
        reached = (text, int(share * 10))
        if last[-1:] != [reached]:
            last[:] = [reached]
            log("loading", step=text, share=reached[1] / 10)

    return report


def _prompts_alone(before: dict[str, int], after: dict[str, int]) -> bool:
    """Whether the step between these counts held prompts and no decode."""
    return {kind for kind in after if after[kind] != before[kind]} == {"prompt"}


def _item(output: Output) -> Item:
    item: Item = {"id": output.id, "tokens": list(output.token_ids), "finish": output.finish}
    if output.logprobs is not None:
        item["logprobs"] = [{"chosen": each.chosen, "top": each.top} for each in output.logprobs]
    if output.times is not None:
        item["times"] = output.times._asdict()
    if output.finish == "error":
        item["message"] = "no token could be drawn"
    return item


def _opened(path: str | None) -> TextIO | None:
    if path is None:
        return None
    try:
        return Path(path).open("w", encoding="utf-8")
    except OSError as error:
        raise SpecError("--log-decisions", Path(path).name, f"a file that can be written ({error.strerror})") from None
