"""The least that serves a target rate: whole replicas, least dollars or watts first.

Ways to serve are taken in the order of what they must take at least by their bound. For a way with two sides, the
fewest replicas of each are found with more than enough of the other; then pairs of counts are tried, cheapest first.
A way whose least is above the worst of the best found so far is not tried. Source: DistServe, section 4.1
(replication); Splitwise, section 6 (provisioning for cost or power at a rate). Verdicts are taken to be monotone in
the number of replicas.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

from twofold.errors import SpecError
from twofold.plan.certify import BATCH, Entry, Report
from twofold.plan.examine import Question, Search, examine
from twofold.plan.options import Side, Way
from twofold.plan.pool import Pool
from twofold.plan.probe import probe
from twofold.spec.deployment import Deployment
from twofold.spec.replays import repeated
from twofold.spec.workload import Workload

MOST_REQUESTS = 300_000
SPAN_S = 30.0
"""Simulated seconds that a replay at the target rate lasts at least."""
AMPLE = 4
MOST_TIMES = 16
"""Replicas of a side are tried up to so many times what its bound asks for."""
WINDOW = 6
DEAREST = 1.5
"""Where all ways are kept, those that take up to so many times the least."""


class Fewest(NamedTuple):
    """Find the first of ``deployments``, in ascending order of size, that sustains the target."""

    deployments: tuple[Deployment, ...]


class First(NamedTuple):
    """Find the first of ``deployments``, in ascending order of what they take, that sustains the target."""

    deployments: tuple[Deployment, ...]


def fewest(question: Question, task: Fewest) -> int | None:
    """Index of the smallest deployment that sustains the workload as it is; None when the largest does not."""
    low, high = -1, len(task.deployments)
    step = 0
    while step < high and not sustained(question, task.deployments[step]):
        low, step = step, 2 * step + 1
    if step >= high:
        if low == high - 1 or not sustained(question, task.deployments[high - 1]):
            return None
        step = high - 1
    high = step
    while high - low > 1:
        middle = (low + high) // 2
        if sustained(question, task.deployments[middle]):
            high = middle
        else:
            low = middle
    return high


def first(question: Question, task: First) -> int | None:
    """Index of the first deployment that sustains the workload as it is; None when none does."""
    for index, deployment in enumerate(task.deployments):
        if sustained(question, deployment):
            return index
    return None


def sustained(question: Question, deployment: Deployment) -> bool:
    """Whether the deployment sustains the workload of the question at its own rate."""
    return (
        probe(question.workload, deployment, question.slo, roofline=question.roofline, cache=question.cache).failed
        is None
    )


def at_target(workload: Workload, rate: float) -> Workload:
    """The workload at ``rate`` requests/s, repeated until it lasts long enough to show a queue grow."""
    times = max(1, math.ceil(SPAN_S * rate / len(workload)))
    if times * len(workload) > MOST_REQUESTS:
        accepted = f"accepted: up to {MOST_REQUESTS / SPAN_S:,.0f} requests/s, {SPAN_S:.0f} s of which are replayed"
        raise SpecError("target-rate", rate, accepted)
    return repeated(workload, times).at_rate(rate)


@dataclass(eq=False)
class Provisioner:
    """Finds the ``keep`` ways that take least, one set of counts a way.

    ``keep`` None keeps all that take up to ``DEAREST`` times the least.
    """

    question: Question
    ways: Sequence[Way]
    pool: Pool
    keep: int | None
    deadline: float | None = None
    report: Report | None = None
    stopped: str | None = None
    found: dict[Way, tuple[int, ...]] = field(default_factory=dict)
    asked: set[Way] = field(default_factory=set)
    _bounded: list[Way] = field(default_factory=list)
    _sides: dict[tuple[Side, int], int | None] = field(default_factory=dict)

    def run(self) -> list[tuple[Way, tuple[int, ...]]]:
        """Ways and their counts, least first."""
        try:
            while not self.found and len(self._bounded) < len(self.ways):
                self._solve_in_turn(self._bound())
        except KeyboardInterrupt:
            if not self.found:
                raise
            self.stopped = "interrupted"
        return sorted(self.found.items(), key=lambda item: item[0].spent(item[1]))

    def gap(self) -> float:
        """How much less than the least found a way that is still open could take, as a share.

        Infinite where one of them has no bound.
        """
        if len(self._bounded) < len(self.ways):
            return math.inf
        left = [way.floor for way in self.ways if way not in self.asked and way.fewest is not None]
        least = min(way.spent(counts) for way, counts in self.found.items())
        return max(0.0, 1.0 - min(left, default=least) / least)

    def unexamined(self) -> int:
        """Ways that were not tried although their bound allows them to be among those kept."""
        allowed = sum(way not in self.asked and way.floor < self._limit() for way in self._bounded)
        return allowed + len(self.ways) - len(self._bounded)

    def _late(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def _bound(self) -> list[Way]:
        """The next ways that may serve the target, least first: all that can be bounded in time, or a batch."""
        left: list[Way] = []
        begun = len(self._bounded)
        for way in self.ways[begun:]:
            if self._late() and len(self._bounded) >= begun + BATCH:
                self.stopped = "time"
                break
            self._bounded.append(way)
            if way.fewest is not None:
                left.append(way)
        return sorted(left, key=lambda way: way.floor)

    def _solve_in_turn(self, left: list[Way]) -> None:
        total = len(left)
        while left and left[0].floor < self._limit():
            if self._late() and self.found:
                self.stopped = "time"
                return
            batch, left = left[:BATCH], left[BATCH:]
            self._solve([way for way in batch if way.floor < self._limit()])
            if self.report is not None and self.found:
                self.report(total - len(left), total, f"least {self._leader()}")

    def _leader(self) -> Deployment:
        way = min(self.found, key=lambda way: way.spent(self.found[way]))
        return way.deployment(self.found[way])

    def _limit(self) -> float:
        """What a way must stay below to be among those kept."""
        spent = sorted(way.spent(counts) for way, counts in self.found.items())
        if self.keep is None:
            return DEAREST * spent[0] if spent else math.inf
        return spent[self.keep - 1] if len(spent) >= self.keep else math.inf

    def _solve(self, batch: list[Way]) -> None:
        limit = self._limit()
        for index in range(2):
            self._fewest_of_sides([way for way in batch if len(way.sides) > index], index)
        choices = [self._counts(way, limit) for way in batch]
        tasks = [
            First(tuple(way.deployment(each) for each in tried)) for way, tried in zip(batch, choices, strict=True)
        ]
        for way, tried, chosen in zip(batch, choices, self.pool.map(first, self.question, tasks), strict=True):
            if chosen is not None:
                self.found[way] = tried[chosen]
        self.asked.update(batch)

    def _fewest_of_sides(self, batch: list[Way], index: int) -> None:
        """Find the fewest replicas of side ``index``, once for all ways that have it."""
        wanted: dict[tuple[Side, int], tuple[list[int], Fewest]] = {}
        for way in batch:
            key = (way.sides[index], len(way.sides))
            if key not in self._sides and key not in wanted:
                counts = self._range(way, index)
                wanted[key] = counts, Fewest(tuple(way.deployment(self._ample(way, index, n)) for n in counts))
        answers = self.pool.map(fewest, self.question, [task for _, task in wanted.values()])
        for (side, (tried, _)), answer in zip(wanted.items(), answers, strict=True):
            self._sides[side] = None if answer is None else tried[answer]

    def _range(self, way: Way, index: int) -> list[int]:
        least = (way.fewest or ())[index]
        most = way.space.resources.most(way.sides[index].shape.kind) // way.sides[index].shape.devices
        return list(range(least, max(least, min(MOST_TIMES * least, most)) + 1))

    def _ample(self, way: Way, index: int, count: int) -> tuple[int, ...]:
        return tuple(count if side == index else AMPLE * n + AMPLE for side, n in enumerate(way.fewest or ()))

    def _counts(self, way: Way, limit: float) -> list[tuple[int, ...]]:
        """Counts to try, those that take least first."""
        least = [self._sides[way.sides[index], len(way.sides)] for index in range(len(way.sides))]
        if any(count is None for count in least):
            return []
        ranges = [range(count, count + (WINDOW if len(least) > 1 else 1)) for count in least if count is not None]
        tried = [counts for counts in product(*ranges) if way.allows(counts) and way.spent(counts) < limit]
        return sorted(tried, key=lambda counts: (way.spent(counts), counts))


def measured(question: Question, found: Sequence[tuple[Way, tuple[int, ...]]], pool: Pool) -> list[Entry]:
    """The goodput of each, which is at least the target."""
    grid = question.grid
    entries, tasks = [], []
    for way, counts in found:
        deployment = way.deployment(counts)
        target = grid.below(way.aim.target or 1.0)
        entries.append(Entry(deployment, way.bounds(deployment), 1.0, grid.highest, asked=True, lasts=True))
        tasks.append(Search(deployment, target, grid.lowest, grid.highest))
    for entry, goodput in zip(entries, pool.map(examine, question, tasks), strict=True):
        entry.found = goodput
    return entries
