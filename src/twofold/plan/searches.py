"""The two searches behind ``plan``: for the highest rate, and for the least that serves a target rate."""

import math
import time
from dataclasses import dataclass, replace
from functools import cached_property

from twofold.plan.bounds import Bound, Bounds
from twofold.plan.certify import Certifier, Entry
from twofold.plan.examine import Question
from twofold.plan.goodput import Grid
from twofold.plan.objective import Objective
from twofold.plan.options import ways
from twofold.plan.pareto import front
from twofold.plan.pool import Pool
from twofold.plan.provision import Provisioner, at_target, measured
from twofold.plan.ranking import Certificate
from twofold.plan.space import Listed, Space
from twofold.simulate.run import Progress
from twofold.spec.deployment import Deployment
from twofold.spec.replays import repeated
from twofold.spec.workload import Workload

LONG = 20_000
"""Requests of the longer replay that the goodput of the best must last through."""
LARGE, LEAST_S = 1000, 10.0
"""Deployments of a large search, and the simulated seconds that its replays last at least."""
SMALL_UNIT = 16
"""Devices of each kind up to which every smaller budget is tried, where less may be better than all."""


@dataclass(frozen=True, eq=False)
class Searching:
    """What both searches need: ``keep`` best are proved, until ``deadline`` of ``time.monotonic``."""

    question: Question
    bounds: Bounds
    space: Space
    aim: Objective
    pool: Pool
    keep: int
    deadline: float | None = None
    progress: Progress | None = None

    @property
    def times(self) -> int:
        """How often the requests are repeated in a longer replay."""
        return times(self.question.workload)

    @cached_property
    def asked(self) -> Question:
        """The question that goodputs answer: where a target is given, on a replay that lasts long enough at it."""
        if self.aim.target is None:
            return self.question
        return replace(self.question, workload=at_target(self.question.workload, self.aim.target))

    def run(self) -> tuple[list[Entry], Certificate]:
        """The measured entries, best first, and what was ruled out."""
        return self.highest() if self.aim.target is None else self.least()

    def highest(self) -> tuple[list[Entry], Certificate]:
        """The deployments with the highest rate, in the unit of the objective."""
        grid = self.question.grid
        deployments, whole = self._listed()
        entries = [entry_of(each, self._bound(each), self.aim, grid) for each in deployments]
        rate = self.question.workload.rate
        start = grid.below(rate if 0 < rate < math.inf else 1.0)
        search = Certifier(
            self.question, entries, self.keep, self.pool, self.times, start, self.deadline, self.progress
        )
        ranked = search.run()
        if not ranked and not whole:
            return replace(self, space=replace(self.space, deadline=None)).highest()
        asked, stopped = sum(entry.asked for entry in entries), search.stopped if whole else search.stopped or "time"
        gap = search.gap() if whole else math.inf
        certificate = Certificate(
            candidates=len(entries),
            pruned_by_bound=len(entries) - asked - search.unexamined(),
            pruned_by_probe=asked - len(ranked),
            measured=len(ranked),
            gap=gap,
            stopped=stopped,
            unexamined=search.unexamined(),
            proved=self.keep if stopped is None else int(gap == 0.0 and ranked[0].lasts),
            whole=whole,
        )
        return ranked, certificate

    def least(self) -> tuple[list[Entry], Certificate]:
        """The ways to serve the target that take least, or those that no other beats in every respect."""
        aimed, pareto = self.asked, self.aim.name == "pareto"
        bounds = Bounds(aimed.workload, self.space.model, aimed.slo, aimed.grid, aimed.roofline)
        every = list(ways(self.space, bounds, self.aim))
        search = Provisioner(aimed, every, self.pool, None if pareto else self.keep, self.deadline, self.progress)
        found = search.run()
        on_front = front(aimed, found, self.pool) if pareto else []
        found = [each for each, _ in on_front] if pareto else found[: self.keep]
        certificate = Certificate(
            candidates=len(every),
            pruned_by_bound=len(every) - len(search.asked) - search.unexamined(),
            pruned_by_probe=len(search.asked) - len(search.found),
            measured=len(search.found),
            gap=0.0 if search.stopped is None else search.gap(),
            stopped=search.stopped,
            unexamined=search.unexamined(),
            proved=len(found) if search.stopped is None else 0,
        )
        entries = measured(aimed, found, self.pool)
        if pareto:
            entries = [replace(entry, tails=ends) for entry, (_, ends) in zip(entries, on_front, strict=True)]
        return sorted(entries, key=lambda entry: (self.aim.spent(entry.deployment), -entry.value)), certificate

    def _bound(self, deployment: Deployment) -> Bound:
        """Its bound; none after the deadline, so that it counts as not examined."""
        late = self.deadline is not None and time.monotonic() > self.deadline
        return Bound(math.inf, "none") if late else self.bounds(deployment)

    def _listed(self) -> Listed:
        return self.space.listed if self.aim.name == "goodput" else self.space.with_smaller(SMALL_UNIT)


def replays_needed(space: Space, bounds: Bounds) -> int:
    """How often to repeat the requests before a large search, so that a replay lasts ``LEAST_S`` near the goodput.

    In a shorter one nearly everything passes, and each of thousands of deployments would have to be replayed for longer
    after all. The goodput is guessed as half the highest bound of a colocated deployment.
    """
    deployments = list(space)
    if len(deployments) < LARGE:
        return 1
    rates = [bounds(each).rate for each in deployments if len(each.groups) == 1]
    guess = 0.5 * max((rate for rate in rates if math.isfinite(rate)), default=0.0)
    return max(1, math.ceil(LEAST_S * guess / len(bounds.workload)))


def times(workload: Workload) -> int:
    """How often the requests are repeated in a longer replay."""
    return max(2, math.ceil(LONG / len(workload)))


def longer(workload: Workload) -> Workload:
    """The replay that a goodput must last through."""
    return repeated(workload, times(workload))


def entry_of(deployment: Deployment, bound: Bound, aim: Objective, grid: Grid) -> Entry:
    """A deployment of which only the bound is known."""
    return Entry(deployment, bound, aim.weight(deployment), highest_step(bound, grid))


def highest_step(bound: Bound, grid: Grid) -> int:
    """The last step of the grid that a bound allows."""
    if bound.rate <= 0.0:
        return grid.lowest - 1
    return grid.highest if math.isinf(bound.rate) else grid.below(bound.rate) - 1
