"""``plan``: the deployment with the highest goodput on a budget, with what proves it."""

import math
import os
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from twofold.cost.roofline import Roofline
from twofold.errors import SpecError
from twofold.plan.bounds import Bound, Bounds
from twofold.plan.cache import open_cache
from twofold.plan.certify import Certifier, Entry
from twofold.plan.examine import Question
from twofold.plan.goodput import Grid
from twofold.plan.nearest import nearest_possible
from twofold.plan.objective import Objective
from twofold.plan.options import Way, ways
from twofold.plan.pareto import front
from twofold.plan.pool import Pool, Threads
from twofold.plan.provision import Provisioner, at_target, measured
from twofold.plan.ranking import Candidate, Certificate, Plan
from twofold.plan.resources import Resources, parse_resources
from twofold.plan.space import Space
from twofold.plan.uncertainty import SAMPLES, intervals
from twofold.simulate.run import Progress
from twofold.spec import catalog
from twofold.spec.deployment import Deployment, Router
from twofold.spec.model import Model
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload

REQUESTS = 5000
KEPT = 10
SURE = 5
PRECISION = 0.01
LONG = 20_000
"""Requests of the longer replay that the goodput of the best must last through."""
SMALL_UNIT = 16


def plan(
    workload: Workload,
    *,
    model: str | Model | dict[str, Any],
    budget: str,
    slo: Slo | str,
    within: str | None = None,
    objective: str = "goodput",
    target_rate: float | None = None,
    requests: int = REQUESTS,
    router: Router | None = None,
    keep: int = KEPT,
    samples: int = SAMPLES,
    workers: int | None = None,
    pool: Pool | None = None,
    time_limit_s: float | None = None,
    cached: bool = False,
    roofline: Roofline | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Rank the deployments of ``model`` on ``budget`` (such as ``"8xH100 + 16xA100"``) under ``slo``.

    ``within`` bounds what they cost or draw (``"150$/h"``, ``"40kW"``); a budget then may name kinds alone
    (``"H100 + A100"``). ``objective`` is one of ``plan.objective.RATES``, or of ``TARGETS`` with a ``target_rate`` in
    requests/s. The first ``requests`` requests of the workload are replayed at every rate tried. The ``keep`` best are
    proved, the first five get an interval from ``samples`` resamplings (0: none). ``workers`` threads (default: one a
    core) or a ``pool`` run the simulations; the answer is the same. After ``time_limit_s`` seconds, or Ctrl-C, the
    plan says how far from the best it may be. ``cached``
    uses what earlier searches have simulated. ``router`` None is kv-aware when the workload has prefix hashes, else
    least-tokens. Raises SpecError when nothing fits, and when no deployment meets the SLO at any rate.
    """
    limits, spec = Slo.parse(slo), catalog.model(model)
    resources = parse_resources(budget, within)
    aim = Objective(objective, target_rate)
    replayed = _replayed(workload, requests)
    cache = open_cache() if cached else None
    question = Question(replayed, limits, Grid(PRECISION), roofline, cache)
    bounds = Bounds(replayed, spec, limits, question.grid, roofline)
    space = Space(spec, resources, limits, router or _router(replayed), capped=_power_counts(aim, resources))
    running = pool or Threads(workers or os.cpu_count() or 1)
    deadline = None if time_limit_s is None else time.monotonic() + time_limit_s
    try:
        if aim.target is not None:
            aimed = replace(question, workload=at_target(replayed, aim.target))
            entries, certificate = _provisioned(
                aimed, question, ways(space, bounds, aim), running, keep, deadline, progress
            )
        else:
            deployments = list(space) if aim.name == "goodput" else list(space.with_smaller(SMALL_UNIT))
            found = [entry_of(deployment, bounds(deployment), aim, question.grid) for deployment in deployments]
            entries, certificate = _certified(question, found, running, keep, deadline, progress)
        if not entries:
            raise SpecError("slo", str(limits), nearest_possible(question, space, aim.target))
        sure = [] if certificate.stopped else intervals(question, entries[:SURE], running, _times(replayed), samples)
    finally:
        if pool is None:
            running.close()
        if cache is not None:
            cache.close()
    padded = [*sure, *[None] * (len(entries) - len(sure))]
    candidates = [Candidate.of(entry, interval) for entry, interval in zip(entries, padded, strict=True)]
    return Plan(candidates, spec, resources, limits, replayed, aim, certificate, roofline)


def _replayed(workload: Workload, requests: int) -> Workload:
    if len(workload) == 0:
        raise SpecError("workload", workload.name, "accepted: at least one request")
    replayed = workload.head(requests)
    if len(replayed) > 1 and math.isinf(replayed.rate):
        accepted = "all requests arrive at once, so no rate can be tried; give --arrivals, or a trace with times"
        raise SpecError("workload", workload.name, accepted)
    return replayed


def _router(workload: Workload) -> Router:
    return "kv-aware" if workload.hash_tokens else "least-tokens"


def _power_counts(aim: Objective, resources: Resources) -> bool:
    return aim.name in ("power", "pareto", "goodput-per-watt") or resources.watts is not None


def _times(workload: Workload) -> int:
    """How often the workload is repeated in a longer replay."""
    return max(2, math.ceil(LONG / len(workload)))


def _certified(
    question: Question,
    entries: list[Entry],
    pool: Pool,
    keep: int,
    deadline: float | None,
    progress: Progress | None,
) -> tuple[list[Entry], Certificate]:
    """The entries with the highest value, proved."""
    rate = question.workload.rate
    start = question.grid.below(rate if 0 < rate < math.inf else 1.0)
    search = Certifier(question, entries, keep, pool, _times(question.workload), start, deadline, progress)
    ranked = search.run()
    asked = sum(entry.asked for entry in entries)
    certificate = Certificate(
        candidates=len(entries),
        pruned_by_bound=len(entries) - asked,
        pruned_by_probe=asked - len(ranked),
        measured=len(ranked),
        gap=search.gap(),
        stopped=search.stopped,
    )
    return ranked, certificate


def _provisioned(
    aimed: Question,
    question: Question,
    tried: Iterable[Way],
    pool: Pool,
    keep: int,
    deadline: float | None,
    progress: Progress | None,
) -> tuple[list[Entry], Certificate]:
    """The ways that serve the target of ``aimed`` for least, or those that no other way beats in every respect."""
    every = list(tried)
    pareto = bool(every) and every[0].aim.name == "pareto"
    search = Provisioner(aimed, every, pool, None if pareto else keep, deadline, progress)
    found = search.run()
    found = front(aimed, found, pool) if pareto else found[:keep]
    certificate = Certificate(
        candidates=len(every),
        pruned_by_bound=len(every) - len(search.asked),
        pruned_by_probe=len(search.asked) - len(search.found),
        measured=len(search.found),
        gap=0.0 if search.stopped is None else search.gap(),
        stopped=search.stopped,
    )
    return measured(question, found, pool), certificate


def entry_of(deployment: Deployment, bound: Bound, aim: Objective, grid: Grid) -> Entry:
    """A deployment that has not been asked about anything yet."""
    return Entry(deployment, bound, aim.weight(deployment), highest_step(bound, grid))


def highest_step(bound: Bound, grid: Grid) -> int:
    """The last step of the grid that a bound allows."""
    if bound.rate <= 0.0:
        return grid.lowest - 1
    return grid.highest if math.isinf(bound.rate) else grid.below(bound.rate) - 1
