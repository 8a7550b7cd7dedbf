"""The engine: requests in, tokens out, by the scheduler that the simulator steps.

    engine = Engine(decoder, pool, sampler, model=..., group=..., device=..., eos_ids=..., context=...)
    engine.add("a", prompt_ids, params)
    while engine.has_work:
        for output in engine.step(): ...

It belongs to one thread. A step plans, runs and commits; requests come and go between steps.
"""

import heapq
import time
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from twofold.cost.contract import CostModel
from twofold.engine.decisions import DecisionLog
from twofold.engine.forward import Clock, Ended, Model, WholeSteps
from twofold.engine.life import Lives
from twofold.engine.origin import Origin
from twofold.engine.outputs import NO_TOKEN, Finish, Logprob, Output, row_logprobs
from twofold.engine.parts import Decoder, Params, Pool, Sampler
from twofold.engine.planner import Planner, service_arrays
from twofold.engine.rounds import Rounds
from twofold.engine.slots import Entry, Slots
from twofold.engine.tally import Tally
from twofold.errors import SpecError
from twofold.scheduler.state import DONE
from twofold.spec import model as spec
from twofold.spec.device import Device
from twofold.spec.group import Group


def _check_ids(prompt_ids: Sequence[int], vocab: int) -> None:
    for token in (min(prompt_ids), max(prompt_ids)):
        if not 0 <= token < vocab:
            raise SpecError("prompt tokens", token, f"accepted: token ids from 0 to {vocab - 1}")


class Engine:
    """One replica of ``group`` (its policy and limits), on the KV blocks of ``pool``.

    ``model`` and ``device`` say what steps cost where a policy asks (a budget in seconds, a split by SLO), with
    ``cost`` in place of the roofline and ``tbt_s`` as the limit of a split that names none. ``eos_ids`` end any text.
    ``context`` is the most tokens of a request, ``requests`` how many it holds, waiting ones included. ``decisions``
    gets every decision, with times in seconds of ``clock`` since the start.
    Raises SpecError for what a group asks and the engine, or this machine, cannot do.
    """

    def __init__(
        self,
        decoder: Decoder,
        pool: Pool,
        sampler: Sampler,
        *,
        model: spec.Model,
        group: Group,
        device: Device,
        eos_ids: Collection[int],
        context: int,
        requests: int = 1024,
        cost: CostModel | None = None,
        tbt_s: float | None = None,
        decisions: DecisionLog | None = None,
        clock: Clock = time.perf_counter,
    ) -> None:
        _, blocks, block_tokens, *_ = pool.keys.shape
        if block_tokens != group.block_tokens:
            raise SpecError("block_tokens", group.block_tokens, f"accepted: {block_tokens}, as the pool has")
        self.context, self._vocab = context, model.vocab
        self._sampler, self._eos = sampler, frozenset(eos_ids)
        self._clock, self._zero = clock, clock()
        self._slots, self._lives = Slots(requests, context), Lives(requests)
        s = service_arrays(group, model, device, blocks, self._slots, cost, tbt_s)
        if decisions is not None:
            origin = Origin(model, group, device, blocks, requests, context, tbt_s, s.costs)
            decisions.start(origin.fields(), int(s.replicas[0].hash_tokens))
        self._planner = Planner(s, self._slots, group.policy, decisions, self._now)
        self._s, self._tally = s, Tally(s)
        columns = np.asarray(s.requests)
        self._generated, self._most, self._state = columns["generated"], columns["output"], columns["state"]
        driver: type[Rounds] | type[WholeSteps] = Rounds if s.lanes == 2 else WholeSteps
        parts = Model(decoder, pool, sampler, model.layers)
        self._driver = driver(self._planner, parts, self._slots.tokens, pool.keys.device, self._now)
        self._named: dict[str, int] = {}
        self._leaving: list[int] = []
        self._deadlines: list[tuple[float, int, str]] = []
        self._count = 0

    def add(
        self, id: str, prompt_ids: Sequence[int], params: Params, *, priority: int = 0, deadline_s: float | None = None
    ) -> None:
        """Take a request; it must end within ``deadline_s`` seconds from now, smaller ``priority`` is more urgent.

        Raises SpecError, and takes nothing, for an id in use, a request that does not fit the context or the KV pool,
        more requests than it holds, and what the sampler refuses.
        """
        if id in self._named:
            raise SpecError("id", id, "accepted: an id that no present request has")
        output, now = self._room(len(prompt_ids), params), self._now()
        _check_ids(prompt_ids, self._vocab)
        stops = frozenset(params.stop_ids) | (frozenset() if params.ignore_eos else self._eos)
        entry = Entry(id, self._count, stops, params.min_tokens, np.inf if deadline_s is None else now + deadline_s)
        slot = self._slots.take(entry, prompt_ids)
        try:
            self._sampler.add(slot, params, prompt_ids)
        except SpecError:
            self._slots.release(slot)
            raise
        self._named[id] = slot
        self._count += 1
        self._planner.arrive(slot, now, len(prompt_ids), output, priority)
        self._lives.arrive(slot, now)
        if deadline_s is not None:
            self._push_deadline(entry)

    def abort(self, id: str) -> None:
        """Forget a request, whatever it is doing, and free its blocks: at once, or when the step that it is in ends.

        Nothing more is given for it; an id that is not known is ignored.
        """
        slot = self._named.pop(id, None)
        if slot is not None and not self._dismiss(slot):
            self._leaving.append(slot)

    def step(self) -> list[Output]:
        """One step (multiplexed: one round); what each request got, in no particular order."""
        outputs = self._expire()
        for ended in self._driver.run():
            outputs += self._end(ended)
        self._leaving = [slot for slot in self._leaving if not self._dismiss(slot)]
        return outputs

    @property
    def has_work(self) -> bool:
        """Whether a request is waiting, running or leaving."""
        return bool(self._named or self._leaving)

    def stats(self) -> dict[str, Any]:
        """Counts since the start and the present state; see :class:`twofold.engine.tally.Tally`."""
        return self._tally.stats() | {"stall_s": self._lives.stall_s, "split": self._driver.split}

    def close(self) -> None:
        """End the threads of the lanes."""
        self._driver.close()

    def _now(self) -> float:
        return self._clock() - self._zero

    def _room(self, prompt: int, params: Params) -> int:
        """The most tokens that a request may give."""
        replica = self._s.replicas[0]
        most = min(self.context, int(replica.total_blocks * replica.block_tokens))
        if not 1 <= prompt < most:
            raise SpecError("prompt tokens", prompt, f"accepted: 1 to {most - 1}, which leaves room for a token")
        output = most - prompt if params.max_tokens is None else params.max_tokens
        if prompt + output > most:
            raise SpecError("max_tokens", output, f"accepted: at most {most - prompt} after {prompt} prompt tokens")
        return output

    def _push_deadline(self, entry: Entry) -> None:
        """Remember a deadline, and forget those of requests that are gone once they are the most of all."""
        heapq.heappush(self._deadlines, (entry.deadline, entry.number, entry.name))
        if len(self._deadlines) > 2 * len(self._slots.entries):
            present = {each.number for each in self._slots.entries if each is not None}
            self._deadlines = [each for each in self._deadlines if each[1] in present]
            heapq.heapify(self._deadlines)

    def _expire(self) -> list[Output]:
        """Abort what is past its deadline."""
        outputs = []
        while self._deadlines and self._deadlines[0][0] <= self._now():
            _, number, id = heapq.heappop(self._deadlines)
            slot = self._named.get(id)
            if slot is not None and self._slots.entry(slot).number == number:
                self.abort(id)
                outputs.append(Output(id, finish="abort"))
        return outputs

    def _end(self, ended: Ended) -> list[Output]:
        """Commit a step that has been run; the requests that are done leave their slots."""
        now, slots = self._now(), ended.slots
        fresh = np.zeros(0, np.int64) if ended.sampled is None else ended.sampled.tokens.cpu().numpy()
        finishes = self._finishes(slots, fresh)
        named = self._slots.append(self._planner.state, slots, np.maximum(fresh, 0))
        self._lives.step(self._s, ended.lane, now, ended.seconds)
        self._lives.tokens(slots, now)
        self._tally.step(ended.lane)
        last = [slot for slot, finish in zip(slots.tolist(), finishes, strict=True) if finish is not None]
        self._planner.end(ended.lane, now, ended.seconds, slots, named, last)
        logprobs = [] if ended.sampled is None else row_logprobs(ended.sampled)
        rows = zip(slots.tolist(), fresh.tolist(), finishes, logprobs, strict=True)
        return [output for row in rows if (output := self._output(*row, now)) is not None]

    def _finishes(self, slots: np.ndarray, fresh: np.ndarray) -> list[Finish | None]:
        """For each of ``slots`` why the token that it got is its last, or None."""
        written = self._generated[slots] + 1
        full = written >= self._most[slots]
        rows = zip(slots.tolist(), fresh.tolist(), written.tolist(), full.tolist(), strict=True)
        return [self._finish(self._slots.entry(slot), token, count, end) for slot, token, count, end in rows]

    def _finish(self, entry: Entry, token: int, written: int, full: bool) -> Finish | None:
        if token == NO_TOKEN:
            return "error"
        if token in entry.stops and written >= entry.min_tokens:
            return "stop"
        return "length" if full else None

    def _output(
        self, slot: int, token: int, finish: Finish | None, logprobs: list[Logprob] | None, now: float
    ) -> Output | None:
        id = self._slots.entry(slot).name
        known = self._named.get(id) == slot
        times = self._lives.times(slot, now) if known and finish in ("stop", "length") else None
        if known and finish is not None:
            del self._named[id]
            self._dismiss(slot)
        tokens = () if finish == "error" else (token,)
        return Output(id, tokens, finish, None if finish == "error" else logprobs, times) if known else None

    def _dismiss(self, slot: int) -> bool:
        """Free ``slot``; False while a step has it."""
        if self._state[slot] != DONE and not self._planner.leave(slot, self._now()):
            return False
        self._sampler.drop(slot)
        self._slots.release(slot)
        return True
