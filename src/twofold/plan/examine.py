"""What is asked about one deployment: does it beat a threshold, does its goodput last, how sure is it."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from twofold.cost.contract import CostModel
from twofold.plan.cache import Cache
from twofold.plan.goodput import Goodput, Grid, climb
from twofold.plan.probe import Probe, probe
from twofold.spec.deployment import Deployment
from twofold.spec.replays import repeated, resampled
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload

LASTING = 0.97
"""Share of the goodput that a longer replay must sustain: below it the run was too short to show the queue grow."""
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
    """Check the goodput of ``deployment``, at step ``k``, on the requests ``times`` over."""

    deployment: Deployment
    k: int
    times: int


class Another(NamedTuple):
    """Find the goodput of ``deployment``, known to be near ``rate``, on the requests resampled with ``seed``."""

    deployment: Deployment
    rate: float
    times: int
    seed: int


def examine(question: Question, task: Search) -> Goodput:
    """Its goodput; rate 0 when it does not sustain the lowest step."""

    def ask(k: int) -> Probe:
        return question.ask(question.workload, task.deployment, k)

    return climb(ask, question.grid, task.start, task.lowest, task.highest)


def lasting(question: Question, task: Longer) -> Goodput | None:
    """None when the goodput lasts in a longer replay, else the goodput there: the finite run was a trap."""
    longer = repeated(question.workload, task.times)
    eased = question.grid.below(question.grid.rate(task.k) * LASTING)

    def ask(k: int) -> Probe:
        return question.ask(longer, task.deployment, k)

    if ask(eased).failed is None:
        return None
    return climb(ask, question.grid, eased - 1, question.grid.lowest, eased - 1)


def another(question: Question, task: Another) -> float:
    """The goodput on other requests like these, requests/s."""
    drawn = resampled(repeated(question.workload, task.times), BLOCKS * task.times, task.seed)

    rough = Grid((1.0 + question.grid.precision) ** ROUGH - 1.0)
    coarse = replace(question, workload=drawn, grid=rough)

    def ask(k: int) -> Probe:
        return coarse.ask(drawn, task.deployment, k)

    return climb(ask, rough, rough.below(task.rate), rough.lowest, rough.highest, stride=1).rate
