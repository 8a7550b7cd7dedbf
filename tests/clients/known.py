"""A server in no time: its steps take what a function of them says, and its clock is its own."""

from collections.abc import Callable
from typing import Any

from stubs import outcome

from twofold.clients.load import Applied, Watch
from twofold.clients.measured import Measured
from twofold.engine.profile_points import Point
from twofold.spec.workload import Workload

StepSeconds = Callable[[Point], float]
Fails = Callable[[Workload], str | None]


class Known:
    """Computes prompts one after the other, each whole or in chunks of ``chunk``, then all decodes together.

    ``batch`` requests at once; ``fails`` gives the kind of failure of a load, if it has one.
    """

    url = "http://known"

    def __init__(self, step_s: StepSeconds, chunk: int = 1 << 20, batch: int = 1 << 20, fails: Fails | None = None):
        self.now = 0.0
        self.loads: list[Workload] = []
        self._step_s, self._chunk, self._batch, self._fails = step_s, chunk, batch, fails

    def clock(self) -> float:
        return self.now

    def load(
        self, workload: Workload, slo: Any = None, concurrency: int | None = None, watch: Watch | None = None
    ) -> Measured:
        assert concurrency is not None
        self.loads.append(workload)
        at_once, requests = min(concurrency, self._batch), len(workload)
        kind = None if self._fails is None else self._fails(workload)
        outcomes = []
        for first in range(0, requests, at_once):
            due_s, prompt = self.now, int(workload.prompt_tokens[0])
            times = [[self._prompt(prompt)] for _ in range(min(at_once, requests - first))]
            for step in range(1, int(workload.output_tokens[0])):
                self.now += self._step_s(Point(len(times), prompt + step))
                for each in times:
                    each.append(self.now)
            outcomes += [outcome(due_s, each, kind) for each in times]
        return Measured(workload, slo, Applied(outcomes, 0.0, watch is not None and watch(outcomes)), concurrency)

    def _prompt(self, tokens: int) -> float:
        for start in range(0, tokens, self._chunk):
            size = min(self._chunk, tokens - start)
            self.now += self._step_s(Point(chunks=((size, start),), ends=start + size == tokens))
        return self.now
