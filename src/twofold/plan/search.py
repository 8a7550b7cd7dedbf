"""``plan``: the deployment with the highest goodput on a budget, with what proves it."""

import math
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from twofold.cost.contract import CostModel
from twofold.errors import SpecError
from twofold.plan.bounds import Bounds
from twofold.plan.cache import Cache, open_cache
from twofold.plan.certify import Entry
from twofold.plan.examine import Question
from twofold.plan.goodput import Grid
from twofold.plan.nearest import nearest_possible
from twofold.plan.objective import Objective
from twofold.plan.pool import Pool, Threads
from twofold.plan.ranking import Candidate, Certificate, Plan
from twofold.plan.resources import Resources, parse_resources
from twofold.plan.searches import Searching, replays_needed
from twofold.plan.space import Space
from twofold.plan.uncertainty import SAMPLES, Doubt, Interval, doubts, intervals
from twofold.simulate.run import Progress
from twofold.spec import catalog
from twofold.spec.deployment import Router
from twofold.spec.model import Model
from twofold.spec.replays import repeated
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload

REQUESTS = 5000
KEPT = 10
SURE = 5
PRECISION = 0.01


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
    system: str | None = None,
    keep: int = KEPT,
    samples: int = SAMPLES,
    workers: int | None = None,
    pool: Pool | None = None,
    time_limit_s: float | None = None,
    cached: bool = False,
    roofline: CostModel | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Rank the deployments of ``model`` on ``budget`` (such as ``"8xH100 + 16xA100"``) under ``slo``.

    - ``within`` bounds what they cost or draw (``"150$/h"``, ``"40kW"``); a budget then may name kinds alone.
    - ``objective`` is one of ``plan.objective.RATES``, or of ``TARGETS`` with a ``target_rate`` in requests/s.
    - The first ``requests`` of the workload are replayed at every rate tried, in a large search several times over.
    - ``router`` None is kv-aware when the workload has prefix hashes, else least-tokens.
    - ``system`` keeps to what a target of ``plan.export`` can run.
    - The ``keep`` best are proved; the first five get an interval from ``samples`` resamplings (below 2: none).
    - ``workers`` threads (default: one a core) or a ``pool`` run the simulations; the answer is the same.
    - After ``time_limit_s`` seconds, or Ctrl-C, the plan says how far from the best it may be.
    - ``cached`` uses, and keeps for later, what searches have simulated.

    Raises SpecError when nothing fits, and when no deployment meets the SLO at any rate.
    """
    deadline = None if time_limit_s is None else time.monotonic() + time_limit_s
    resources, aim = parse_resources(budget, within), Objective(objective, target_rate)
    if aim.target is None and not resources.bounded:
        raise SpecError("gpus", budget, "say how many there are, what they may cost or draw, or a rate to serve")
    replayed, limits, spec = _replayed(workload, requests), Slo.parse(slo), catalog.model(model)
    chosen, capped = router or _router(replayed), _power_counts(aim, resources)
    space = Space(spec, resources, limits, chosen, capped, system, roofline, deadline)
    with _opened(cached) as cache, _running(pool, workers) as running:
        bounds, repeats = _bounds(replayed, space, aim)
        question = Question(bounds.workload, limits, bounds.grid, roofline, cache)
        search = Searching(question, bounds, space, aim, running, keep, deadline, progress)
        entries, certificate = search.run()
        if not entries:
            raise _impossible(search)
        candidates, certificate = _judged(search, entries, certificate, samples)
    return Plan(candidates, spec, resources, limits, bounds.workload, aim, certificate, roofline, repeats=repeats)


def _judged(
    search: Searching, entries: list[Entry], certificate: Certificate, samples: int
) -> tuple[list[Candidate], Certificate]:
    """The candidates, with how sure the first of them are; the certificate says if that was interrupted."""
    sure: list[Interval] = []
    doubted: list[Doubt | None] = []
    if certificate.stopped is None:
        try:
            sure = intervals(search.asked, entries[:SURE], search.pool, search.times, samples)
            doubted = doubts(search.asked, entries[:SURE], search.pool)
        except KeyboardInterrupt:
            certificate = replace(certificate, stopped="interrupted")
    return [Candidate.of(*known) for known in zip_longest(entries, sure, doubted)], certificate


def _bounds(workload: Workload, space: Space, aim: Objective) -> tuple[Bounds, int]:
    """The bounds of what is replayed, and how many times over that is ``workload``."""
    bounds = Bounds(workload, space.model, space.slo, Grid(PRECISION), space.roofline)
    repeats = replays_needed(space, bounds) if aim.target is None else 1
    if repeats > 1:
        bounds = Bounds(repeated(workload, repeats), space.model, space.slo, bounds.grid, space.roofline)
    return bounds, repeats


@contextmanager
def _opened(cached: bool) -> Iterator[Cache | None]:
    cache = open_cache() if cached else None
    try:
        yield cache
    finally:
        if cache is not None:
            cache.close()


@contextmanager
def _running(pool: Pool | None, workers: int | None) -> Iterator[Pool]:
    if pool is not None:
        yield pool
        return
    with closing(Threads(workers or os.cpu_count() or 1)) as threads:
        yield threads


def _impossible(search: Searching) -> SpecError:
    """Why nothing was found: the target rate is out of reach, or the SLO is at any rate."""
    question, space, target = search.question, replace(search.space, deadline=None), search.aim.target
    if target is not None and any(search.bounds(each).rate > 0.0 for each in space):
        reach = f"out of reach of {space.model.name} on {space.resources} under {question.slo}"
        return SpecError("target-rate", target, f"{reach}; leave it and the objective out to see what is not")
    return SpecError("slo", str(question.slo), nearest_possible(question, space, target))


def _replayed(workload: Workload, requests: int) -> Workload:
    if min(len(workload), requests) < 2:
        raise SpecError("workload", workload.name, "accepted: at least two requests, since one alone has no rate")
    replayed = workload.head(requests)
    if math.isinf(replayed.rate):
        accepted = "all requests arrive at once, so no rate can be tried; give --arrivals, or a trace with times"
        raise SpecError("workload", workload.name, accepted)
    return replayed


def _router(workload: Workload) -> Router:
    return "kv-aware" if workload.hash_tokens else "least-tokens"


def _power_counts(aim: Objective, resources: Resources) -> bool:
    return aim.name in ("power", "pareto", "goodput-per-watt") or resources.watts is not None
