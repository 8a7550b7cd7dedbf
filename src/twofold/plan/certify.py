"""The search: best bound first, until nothing that is left can be among the best.

Every deployment has an upper limit on its rate, at first its optimistic bound. The one with the highest is asked
whether it beats the worst of the best so far: a run that fails lowers its limit, a run that passes is followed up to
its goodput. The best are then confirmed, just below their goodputs and on longer replays, which may lower them and
open the question again. The search ends when the best are confirmed and no other limit or goodput is above theirs.

What that proves: a goodput is the highest rate of the grid at and below which all rates are sustained. Whatever is
ruled out by a simulation failed at a rate of the grid at most one step above the best, so its goodput is at most the
best, ties included; this does not take verdicts to be monotone in the rate. The goodputs shown are sustained, at
themselves and at ``examine.STEADY`` steps below; a failure further down would go unseen, and they would be too high.

Deployments are asked in batches of a fixed size, so that the answer does not depend on how many run at a time.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from twofold.plan.bounds import Bound
from twofold.plan.examine import Longer, Question, Search, examine, lasting
from twofold.plan.goodput import BOUND, Goodput
from twofold.plan.pool import Pool
from twofold.spec.deployment import Deployment

BATCH = 16
FIRST = 4
HOPED = 0.75
"""A deployment is first asked about this share of the best goodput so far, later about this share of its own limit."""

Report = Callable[[int, int, str], None]


@dataclass(eq=False)
class Entry:
    """What is known of one deployment.

    The goodput is at most step ``highest``, by the bound or, where it was ``asked``, by what ``failed`` above it.
    ``found`` is its goodput once it is measured, ``lasts`` whether it is confirmed, ``trap`` the rate that a short
    replay had shown where a longer one did not sustain it; ``tails`` are P99 of TTFT and of TBT in seconds at the
    target rate, where they were asked for.
    """

    deployment: Deployment
    bound: Bound
    weight: float
    highest: int
    asked: bool = False
    failed: str | None = None
    found: Goodput | None = None
    lasts: bool = False
    trap: float | None = None
    tails: tuple[float, float] | None = None

    @property
    def value(self) -> float:
        """Goodput in the unit of the objective; 0 where it is not measured."""
        return self.found.rate / self.weight if self.found is not None else 0.0


@dataclass(eq=False)
class Certifier:
    """Ranks ``entries`` until the ``keep`` best are proved, or ``deadline`` (of ``time.monotonic``) has passed."""

    question: Question
    entries: Sequence[Entry]
    keep: int
    pool: Pool
    times: int
    start: int
    deadline: float | None = None
    report: Report | None = None
    stopped: str | None = None
    _settled: int = field(default=0)

    def run(self) -> list[Entry]:
        """The measured entries, best first; ``stopped`` says what ended the search early, if anything did."""
        try:
            while batch := self._next():
                if self.deadline is not None and time.monotonic() > self.deadline and self._ranked():
                    self.stopped = "time"
                    break
                self._ask(batch)
                self._tell()
        except KeyboardInterrupt:
            if not self._ranked():
                raise
            self.stopped = "interrupted"
        return self._ranked()

    def gap(self) -> float:
        """How much better than the best an entry that is still open could be, as a share; 0 when all is proved.

        Infinite where one of them has no bound.
        """
        ranked = self._ranked()
        if not ranked or ranked[0].value == 0.0:
            return 0.0
        best, left = ranked[0].value, self._open(ranked[0].value)
        if any(entry.highest == self.question.grid.highest for entry in left):
            return math.inf
        return max(0.0, max(map(self._limit, left), default=best) / best - 1.0)

    def unexamined(self) -> int:
        """Entries that no simulation has asked about and no bound has ruled out."""
        return sum(not entry.asked for entry in self._open(self._threshold()))

    def _ranked(self) -> list[Entry]:
        measured = [entry for entry in self.entries if entry.found is not None and entry.found.rate > 0.0]
        return sorted(measured, key=lambda entry: -entry.value)

    def _threshold(self) -> float:
        """What a deployment must beat to be among those kept."""
        ranked = self._ranked()
        return ranked[self.keep - 1].value if len(ranked) >= self.keep else 0.0

    def _limit(self, entry: Entry) -> float:
        return self.question.grid.rate(entry.highest) / entry.weight

    def _open(self, threshold: float) -> list[Entry]:
        lowest = self.question.grid.lowest
        return [
            entry
            for entry in self.entries
            if entry.found is None and entry.highest >= max(lowest, self._step_above(threshold, entry))
        ]

    def _step_above(self, threshold: float, entry: Entry) -> int:
        grid = self.question.grid
        return grid.below(threshold * entry.weight) + 1 if threshold > 0.0 else grid.lowest

    def _next(self) -> list[Entry]:
        """The entries to ask now: open ones, best limit first, or the best that are not confirmed yet."""
        waiting = self._open(self._threshold())
        if waiting:
            size = BATCH if self._ranked() else FIRST
            return sorted(waiting, key=lambda entry: -self._limit(entry))[:size]
        return [entry for entry in self._ranked()[: self.keep] if not entry.lasts]

    def _ask(self, batch: list[Entry]) -> None:
        if batch[0].found is None:
            self._measure(batch)
        else:
            self._confirm(batch)

    def _measure(self, batch: list[Entry]) -> None:
        tasks = [self._task(entry) for entry in batch]
        for entry, task, found in zip(batch, tasks, self.pool.map(examine, self.question, tasks), strict=True):
            entry.asked = True
            if found.rate > 0.0:
                limit = entry.failed or entry.bound.limit
                entry.found = replace(found, limit=limit) if found.limit == BOUND else found
            else:
                entry.highest, entry.failed = task.lowest - 1, found.limit

    def _task(self, entry: Entry) -> Search:
        """Ask about a rate that would put ``entry`` among the best, not the lowest that would do."""
        grid, ranked = self.question.grid, self._ranked()
        if not ranked:
            return Search(entry.deployment, min(self.start, entry.highest), grid.lowest, entry.highest)
        hoped = HOPED * min(ranked[0].value, self._limit(entry))
        first = max(self._step_above(self._threshold(), entry), min(self._step_above(hoped, entry), entry.highest))
        return Search(entry.deployment, first, first, entry.highest)

    def _confirm(self, batch: list[Entry]) -> None:
        tasks = [Longer(entry.deployment, entry.found, self.times) for entry in batch if entry.found is not None]
        for entry, confirmed in zip(batch, self.pool.map(lasting, self.question, tasks), strict=True):
            entry.lasts = True
            entry.found, entry.trap = confirmed

    def _tell(self) -> None:
        ranked = self._ranked()
        if self.report is None or not ranked:
            return
        left = len(self._open(self._threshold()))
        best = ranked[0]
        rate = best.found.rate if best.found else 0.0
        self._settled = max(self._settled, len(self.entries) - left)
        self.report(self._settled, len(self.entries), f"best {best.deployment}: {rate:.3g} req/s")
