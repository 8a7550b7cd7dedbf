"""A plan for several workloads: the deployment whose worst loss against each workload's own best is least."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from twofold.errors import SpecError
from twofold.plan.bounds import Bound, Bounds
from twofold.plan.examine import Known, Question, known_within
from twofold.plan.goodput import Grid
from twofold.plan.objective import RATES
from twofold.plan.ranking import Candidate, Plan
from twofold.plan.robust import RegretRow, regret
from twofold.plan.search import plan
from twofold.plan.searches import longer
from twofold.plan.uncertainty import Doubt, doubted
from twofold.spec.deployment import Deployment
from twofold.spec.workload import Workload

EACH = 3
"""Deployments of each workload's own plan that are tried on all."""


def plan_robustly(workloads: Sequence[Workload], **options: Any) -> Plan:
    """The plan of the first workload, with the best of every workload's plan ranked by worst regret over all.

    ``options`` are those of :func:`plan`, with an objective that wants the highest rate. Goodputs shown are those of
    the first workload in a longer replay; ``regret`` has the whole table (lecture 7, section 6.3). What the cost model
    cannot tell apart are worst regrets: each as near as the steps on the workload that it is for.
    """
    if options.get("objective", "goodput") != "goodput":
        raise SpecError("objective", options["objective"], f"accepted for several workloads: {RATES[0]}")
    plans = [plan(workload, **options) for workload in workloads]
    replays = [longer(found.workload) for found in plans]
    table = regret(
        replays,
        _tried(plans),
        plans[0].slo,
        roofline=options.get("roofline"),
        progress=options.get("progress"),
    )
    first = plans[0]
    bounds = Bounds(first.workload, first.model, first.slo, Grid(), first.roofline)
    ranked = sorted(table.rows, key=lambda row: (row.worst, row.mean))
    errors = [_known_within(row, replays, first) for row in ranked]
    doubts = doubted([1.0 - row.worst for row in ranked], errors)
    candidates = [_candidate(row, bounds(row.deployment), doubt) for row, doubt in zip(ranked, doubts, strict=True)]
    return replace(first, candidates=candidates, regret=table)


def _tried(plans: Sequence[Plan]) -> list[Deployment]:
    tried = {candidate.label: candidate.deployment for found in plans for candidate in found.candidates[:EACH]}
    return list(tried.values())


def _known_within(row: RegretRow, replays: Sequence[Workload], first: Plan) -> float | None:
    """Relative error of the steps where the row loses most; None where it serves nothing there, or nobody knows."""
    place = row.worst_at
    rate = row.cells[place].found.rate
    question = Question(replays[place], first.slo, Grid(), first.roofline)
    return known_within(question, Known(row.deployment, rate)) if rate > 0.0 else None


def _candidate(row: RegretRow, bound: Bound, doubt: Doubt | None) -> Candidate:
    return Candidate(
        row.deployment,
        row.cells[0].found,
        bound.rate,
        bound.limit,
        cost_error=None if doubt is None else doubt.error,
        not_told_from=() if doubt is None else doubt.not_told_from,
        confirmed=True,
    )
