"""A plan for several workloads: the deployment whose worst loss against each workload's own best is least."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from twofold.errors import SpecError
from twofold.plan.bounds import Bound, Bounds
from twofold.plan.goodput import Grid
from twofold.plan.objective import RATES
from twofold.plan.ranking import Candidate, Plan
from twofold.plan.robust import RegretRow, regret
from twofold.plan.search import plan
from twofold.plan.searches import longer
from twofold.spec.deployment import Deployment
from twofold.spec.workload import Workload

EACH = 3
"""Deployments of each workload's own plan that are tried on all."""


def plan_robustly(workloads: Sequence[Workload], **options: Any) -> Plan:
    """The plan of the first workload, with the best of every workload's plan ranked by worst regret over all.

    ``options`` are those of :func:`plan`, with an objective that wants the highest rate. Goodputs shown are those of
    the first workload in a longer replay; ``regret`` has the whole table (lecture 7, section 6.3).
    """
    if options.get("objective", "goodput") != "goodput":
        raise SpecError("objective", options["objective"], f"accepted for several workloads: {RATES[0]}")
    plans = [plan(workload, **options) for workload in workloads]
    table = regret(
        [longer(found.workload) for found in plans],
        _tried(plans),
        plans[0].slo,
        roofline=options.get("roofline"),
        progress=options.get("progress"),
    )
    first = plans[0]
    bounds = Bounds(first.workload, first.model, first.slo, Grid(), first.roofline)
    ranked = sorted(table.rows, key=lambda row: (row.worst, row.mean))
    return replace(first, candidates=[_candidate(row, bounds(row.deployment)) for row in ranked], regret=table)


def _tried(plans: Sequence[Plan]) -> list[Deployment]:
    tried = {candidate.label: candidate.deployment for found in plans for candidate in found.candidates[:EACH]}
    return list(tried.values())


def _candidate(row: RegretRow, bound: Bound) -> Candidate:
    return Candidate(row.deployment, row.cells[0].found, bound.rate, bound.limit, confirmed=True)
