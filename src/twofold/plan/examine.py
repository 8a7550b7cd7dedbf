"""What is asked about one deployment: does it beat a threshold, does its goodput last, how sure is it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from twofold.cost.contract import CostModel
from twofold.plan.cache import Cache
from twofold.plan.goodput import BOUND, Goodput, Grid, climb
from twofold.plan.probe import Probe, probe
from twofold.simulate.band import step_errors
from twofold.simulate.run import simulate
from twofold.spec import catalog
from twofold.spec.deployment import Deployment
from twofold.spec.replays import repeated, resampled
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload

LASTING = 0.97
"""Share of the goodput that a longer replay must sustain: below it the run was too short to show the queue grow."""
STEADY = 4
"""Steps below a goodput that must be sustained too: near it verdicts flicker, and an island of passes is not one."""
BLOCKS = 50
ROUGH = 2
"""Steps of the grid to one step of a resampled goodput, whose spread is wanted rather than itself."""


@dataclass(frozen=True, eq=False)
class Question:
    """What all tasks of a search share: the replayed requests, the limits, the cost model and the rates."""

    workload: Workload
    slo: Slo
    grid: Grid
    roofline: CostModel | None = None
    cache: Cache | None = None

    def ask(self, workload: Workload, deployment: Deployment, k: int) -> Probe:
        """Whether ``deployment`` sustains ``workload`` at step ``k``."""
        return probe(
            workload.at_rate(self.grid.rate(k)), deployment, self.slo, roofline=self.roofline, cache=self.cache
        )


class Search(NamedTuple):
    """Find the goodput of ``deployment`` between two steps, from ``start`` on."""

    deployment: Deployment
    start: int
    lowest: int
    highest: int


class Longer(NamedTuple):
    """Check what was ``found`` of ``deployment``: just below it, and on the requests ``times`` over."""

    deployment: Deployment
    found: Goodput
    times: int


class Lasting(NamedTuple):
    """A confirmed goodput, and the rate that a short replay had shown where a longer one did not sustain it."""

    found: Goodput
    trap: float | None


class Another(NamedTuple):
    """Find the goodput of ``deployment``, known to be near ``rate``, on the requests resampled with ``seed``."""

    deployment: Deployment
    rate: float
    times: int
    seed: int


class Known(NamedTuple):
    """How near does the cost model know the steps of ``deployment`` at ``rate``, its goodput."""

    deployment: Deployment
    rate: float


def examine(question: Question, task: Search) -> Goodput:
    """Its goodput; rate 0 when it does not sustain the lowest step."""

    def ask(k: int) -> Probe:
        return question.ask(question.workload, task.deployment, k)

    return climb(ask, question.grid, task.start, task.lowest, task.highest)


def lasting(question: Question, task: Longer) -> Lasting:
    """The goodput that the steps below it and a longer replay confirm."""

    def ask(k: int) -> Probe:
        return question.ask(question.workload, task.deployment, k)

    longer = repeated(question.workload, task.times)

    def ask_longer(k: int) -> Probe:
        return question.ask(longer, task.deployment, k)

    found = steady(ask, question.grid, task.found)
    if found.rate == 0.0:
        return Lasting(found, None)
    eased = question.grid.below(found.rate * LASTING)
    failed = ask_longer(eased).failed
    if failed is None:
        return Lasting(found, None)
    lower = steady(ask_longer, question.grid, below(ask_longer, question.grid, eased, failed))
    return Lasting(lower, found.rate)


def steady(ask: Callable[[int], Probe], grid: Grid, found: Goodput) -> Goodput:
    """``found``, or less: until it and the ``STEADY`` steps below it are sustained."""
    while found.rate > 0.0:
        top = grid.below(found.rate)
        probes = {k: ask(k) for k in range(max(grid.lowest, top - STEADY), top)}
        failed = next(((k, probe.failed) for k, probe in probes.items() if probe.failed is not None), None)
        if failed is None:
            return found
        found = below(ask, grid, *failed)
    return found


def below(ask: Callable[[int], Probe], grid: Grid, k: int, failed: str) -> Goodput:
    """The goodput below step ``k``, where the limit ``failed`` is broken."""
    found = climb(ask, grid, k - 1, grid.lowest, k - 1)
    return replace(found, limit=failed) if found.limit == BOUND else found


def another(question: Question, task: Another) -> float:
    """The goodput on other requests like these, requests/s."""
    drawn = resampled(repeated(question.workload, task.times), BLOCKS * task.times, task.seed)
    coarse = replace(question, workload=drawn, grid=rough(question.grid))
    grid = coarse.grid

    def ask(k: int) -> Probe:
        return coarse.ask(drawn, task.deployment, k)

    return climb(ask, grid, grid.below(task.rate), grid.lowest, grid.highest, stride=1).rate


def known_within(question: Question, task: Known) -> float | None:
    """Relative error, one standard deviation, of the steps at the goodput; None where the cost model does not say."""
    costs, deployment = question.roofline, task.deployment
    if costs is None or np.isnan(step_errors(costs, deployment, catalog.model(deployment.model))).all():
        return None
    band = simulate(question.workload.at_rate(task.rate), deployment, question.slo, roofline=costs).band
    return None if band is None else band.largest


def rough(grid: Grid) -> Grid:
    """The grid on which resampled goodputs lie."""
    return Grid((1.0 + grid.precision) ** ROUGH - 1.0)
