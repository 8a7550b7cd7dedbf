"""The best deployment of each kind, on the devices of the best: what the pictures compare."""

from collections import defaultdict
from dataclasses import dataclass

from twofold.plan.bounds import Bounds
from twofold.plan.certify import Certifier, Entry
from twofold.plan.examine import Question
from twofold.plan.goodput import Grid
from twofold.plan.pool import Pool
from twofold.plan.ranking import Candidate, Plan
from twofold.plan.report.kinds import kind_of
from twofold.plan.resources import Kind, Resources
from twofold.plan.search import PRECISION
from twofold.plan.searches import entry_of, times
from twofold.plan.space import Space
from twofold.simulate.run import Progress

MOST = 100
"""So many deployments of a kind are tried at most, those with the highest bounds."""


@dataclass(frozen=True)
class Champion:
    """The best deployment of its kind; ``rank`` is its place in the plan, from 1, or None: it is not listed there."""

    kind: str
    candidate: Candidate
    rank: int | None = None

    @property
    def name(self) -> str:
        """The deployment as the ranking names it."""
        return self.candidate.label


def champions(plan: Plan, pool: Pool, progress: Progress | None = None) -> list[Champion]:
    """The best of the plan, and of every other kind the one with the highest goodput on the same devices, best first.

    A plan proves its best and drops other kinds as soon as they cannot be among them, so each kind is searched again,
    with the same bounds and the same checks. A kind that sustains no rate is absent.
    """
    own = kind_of(plan.best.deployment)
    question = Question(plan.workload, plan.slo, Grid(PRECISION), plan.roofline)
    found = [
        _champion(plan, kind, best)
        for kind, entries in of_each_kind(plan).items()
        if kind != own and (best := _best(question, entries, plan, pool, progress)) is not None
    ]
    return [Champion(own, plan.best, 1), *sorted(found, key=lambda each: -each.candidate.found.rate)]


def of_each_kind(plan: Plan) -> dict[str, list[Entry]]:
    """Up to ``MOST`` deployments of each kind on the devices of the best, the highest bound first."""
    used = plan.best.deployment.by_device()
    kinds = (Kind(kind.device, used.get(kind.device.name, 0)) for kind in plan.resources.kinds)
    resources = Resources(tuple(kind for kind in kinds if kind.most))
    grid = Grid(PRECISION)
    bounds = Bounds(plan.workload, plan.model, plan.slo, grid, plan.roofline)
    found: dict[str, list[Entry]] = defaultdict(list)
    for deployment in Space(plan.model, resources, plan.slo, plan.best.deployment.router, roofline=plan.roofline):
        entry = entry_of(deployment, bounds(deployment), plan.objective, grid)
        found[kind_of(deployment)].append(entry)
    return {kind: sorted(entries, key=lambda entry: -entry.bound.rate)[:MOST] for kind, entries in found.items()}


def _best(
    question: Question, entries: list[Entry], plan: Plan, pool: Pool, progress: Progress | None
) -> Candidate | None:
    start = question.grid.below(plan.best.found.rate)
    ranked = Certifier(question, entries, 1, pool, times(plan.workload), start, report=progress).run()
    return Candidate.of(ranked[0], None) if ranked else None


def _champion(plan: Plan, kind: str, best: Candidate) -> Champion:
    """As the plan has it where it is listed there, with its interval."""
    used = plan.best.deployment.by_device()
    listed = {
        rank: each
        for rank, each in enumerate(plan.candidates, 1)
        if kind_of(each.deployment) == kind
        and all(count <= used.get(name, 0) for name, count in each.deployment.by_device().items())
    }
    rank = max(listed, key=lambda rank: listed[rank].found.rate, default=0)
    if rank and listed[rank].found.rate >= best.found.rate:
        return Champion(kind, listed[rank], rank)
    return Champion(kind, best)
