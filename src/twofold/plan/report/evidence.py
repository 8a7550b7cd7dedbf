"""What the report shows, computed on the plan's requests: curves over the rate, distributions, phases, tails."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twofold.plan.pool import Pool, Threads
from twofold.plan.ranking import Candidate, Plan
from twofold.plan.report.front import on_front
from twofold.plan.report.kinds import kind_of
from twofold.plan.report.rivals import Champion, champions
from twofold.plan.report.scene import Scene, scene_of
from twofold.plan.resources import price_of
from twofold.simulate.attainment import attainment_of
from twofold.simulate.quantiles import gap_quantiles
from twofold.simulate.result import Result
from twofold.simulate.run import Progress, simulate
from twofold.spec.slo import Slo

Floats = NDArray[np.float64]
LOADS = (0.3, 0.5, 0.7, 0.85, 0.95, 1.0, 1.1, 1.25, 1.5)
"""Offered rates of the curves, as shares of the goodput of the best."""
SHARES = np.concatenate([np.linspace(0.01, 0.9, 60), 1.0 - np.geomspace(0.095, 0.001, 30)])
TABLED = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
TAILS = 100
"""As many candidates, from the best on, are run once more at their own goodput for their tails."""


@dataclass(frozen=True)
class Evidence:
    """Everything that is drawn. Frames, in seconds and requests/s:

    ``curves``: kind, rate, share (see :func:`share_of`), within (requests/s that keep all limits), a row a load.
    ``distributions``: kind, metric, share, seconds, at the goodput of the best; a share that never got there is absent.
    ``percentiles``: kind, metric, p50, p90, p99; infinite where a request never got there.
    ``phases``: kind, phase, seconds, the mean of the finished requests. ``tails``: rank, kind, deployment, goodput,
    usd (an hour, for each request/s), joules (a request), ttft_p99, tbt_p99, front; each at its own goodput.
    """

    plan: Plan
    champions: list[Champion]
    target: float
    judged: str
    curves: pl.DataFrame
    distributions: pl.DataFrame
    percentiles: pl.DataFrame
    phases: pl.DataFrame
    tails: pl.DataFrame
    scene: Scene

    @property
    def rate(self) -> float:
        """The goodput of the best, requests/s: the load at which the kinds are compared."""
        return self.plan.best.found.rate


def gather(plan: Plan, progress: Progress | None = None, pool: Pool | None = None) -> Evidence:
    """Run what the report shows: the best of each kind over ``LOADS``, every candidate at its goodput, the stall.

    The search for the best of each kind runs in ``pool`` (default: a thread a core).
    """
    running = pool or Threads(os.cpu_count() or 1)
    try:
        best_of = champions(plan, running, progress)
    finally:
        if pool is None:
            running.close()
    target, judged = aim(plan.slo)
    curves, at_best = _over_the_rate(plan, best_of)
    metrics = metrics_of(plan.slo)
    return Evidence(
        plan=plan,
        champions=best_of,
        target=target,
        judged=judged,
        curves=curves,
        distributions=_each(at_best, metrics, _distribution),
        percentiles=_each(at_best, metrics, _percentiles),
        phases=_phases(at_best),
        tails=_tails(plan),
        scene=scene_of(plan, {champion.kind: champion.candidate for champion in best_of}),
    )


def _over_the_rate(plan: Plan, best_of: list[Champion]) -> tuple[pl.DataFrame, dict[str, Result]]:
    """The curves, and the run of each kind at the goodput of the best."""
    rows: list[dict[str, Any]] = []
    at_best: dict[str, Result] = {}
    for champion in best_of:
        for load in LOADS:
            rate = load * plan.best.found.rate
            result = _run(plan, champion.candidate, rate)
            rows.append(_curve_row(champion.kind, rate, result, plan.slo))
            if load == 1.0:
                at_best[champion.kind] = result
    return pl.DataFrame(rows), at_best


def _tails(plan: Plan) -> pl.DataFrame:
    rows = [
        _tail_row(rank, candidate, _run(plan, candidate, candidate.found.rate))
        for rank, candidate in enumerate(plan.candidates[:TAILS], 1)
        if candidate.found.rate > 0
    ]
    return _with_front(pl.DataFrame(rows))


def aim(slo: Slo) -> tuple[float, str]:
    """What :func:`share_of` must reach, and what it is a share of."""
    if slo.percentiles:
        return 1.0, "what the tightest limit demands"
    return slo.attainment, "requests within all limits"


def share_of(result: Result, slo: Slo) -> float:
    """The attainment; with percentile limits the smallest ratio of a share within a limit to the share demanded.

    The SLO holds exactly where it is at least the first value of :func:`aim`.
    """
    if not slo.percentiles:
        return attainment_of(result, slo)
    ratios = [_within(result, each.metric, each.limit_s) / (each.percentile / 100.0) for each in slo.percentiles]
    return min([*ratios, *([attainment_of(result, slo) / slo.attainment] if slo.limits else [])])


def for_each_request(slo: Slo) -> Slo:
    """The limits, percentile limits among them, as limits that a single request keeps or not."""
    limits = dict(slo.limits)
    for each in slo.percentiles:
        limits[each.metric] = min(each.limit_s, limits.get(each.metric, each.limit_s))
    return Slo(limits.get("ttft"), limits.get("tpot"), limits.get("tbt"), limits.get("e2e"), slo.attainment)


def _within(result: Result, metric: str, limit_s: float) -> float:
    if metric == "tbt":
        return gaps_within(result, limit_s)
    return float((_values(result, metric) <= limit_s).mean())


def gaps_within(result: Result, limit_s: float) -> float:
    """The share of all token gaps that are at most ``limit_s``; 1 without gaps."""
    gaps = result.gaps
    low, high = np.minimum(gaps.first, gaps.last), np.maximum(gaps.first, gaps.last)
    step = np.where(high > low, (high - low) / np.maximum(gaps["count"] - 1, 1), np.inf)
    terms = np.clip(np.floor((limit_s - low) / step) + 1, 0, gaps["count"])
    terms = np.where(limit_s >= high, gaps["count"], np.where(limit_s < low, 0, terms))
    total = float((gaps["count"] * gaps.weight).sum())
    return float((terms * gaps.weight).sum()) / total if total else 1.0


def metrics_of(slo: Slo) -> list[str]:
    """What is drawn as a distribution: TTFT, TBT, and whatever else the SLO limits."""
    limited = [*slo.limits, *(limit.metric for limit in slo.percentiles)]
    return list(dict.fromkeys(["ttft", "tbt", *limited]))


def _run(plan: Plan, candidate: Candidate, rate: float) -> Result:
    return simulate(plan.workload.at_rate(rate), candidate.deployment, plan.slo, roofline=plan.roofline)


def _curve_row(kind: str, rate: float, result: Result, slo: Slo) -> dict[str, Any]:
    within = attainment_of(result, for_each_request(slo)) * rate
    return {"kind": kind, "rate": rate, "share": share_of(result, slo), "within": within}


def _values(result: Result, metric: str) -> Floats:
    values = {"ttft": result.ttft_s, "tpot": result.tpot_s, "e2e": result.e2e_s}[metric]
    return np.where(np.isnan(values), np.inf, values)


def _quantiles(result: Result, metric: str, shares: Floats) -> Floats:
    if metric == "tbt":
        return np.asarray(gap_quantiles(result.gaps, shares))
    return np.asarray(np.quantile(_values(result, metric), shares, method="inverted_cdf"))


def _distribution(result: Result, metric: str) -> pl.DataFrame:
    frame = pl.DataFrame({"share": SHARES, "seconds": _quantiles(result, metric, SHARES)})
    return frame.filter(pl.col("seconds").is_finite() & (pl.col("seconds") > 0))


def _percentiles(result: Result, metric: str) -> pl.DataFrame:
    values = _quantiles(result, metric, np.array(list(TABLED.values())))
    return pl.DataFrame({name: [value] for name, value in zip(TABLED, values, strict=True)})


def _each(
    results: dict[str, Result], metrics: list[str], measure: Callable[[Result, str], pl.DataFrame]
) -> pl.DataFrame:
    return pl.concat(
        measure(result, metric).select(pl.lit(kind).alias("kind"), pl.lit(metric).alias("metric"), pl.all())
        for metric in metrics
        for kind, result in results.items()
    )


def _phases(results: dict[str, Result]) -> pl.DataFrame:
    rows = [
        {"kind": kind, "phase": phase, "seconds": seconds}
        for kind, result in results.items()
        for phase, seconds in result.breakdown().items()
    ]
    return pl.DataFrame(rows)


def _tail_row(rank: int, candidate: Candidate, result: Result) -> dict[str, Any]:
    rate = candidate.found.rate
    return {
        "rank": rank,
        "kind": kind_of(candidate.deployment),
        "deployment": candidate.label,
        "goodput": rate,
        "usd": price_of(candidate.deployment) / rate,
        "joules": result.energy_j / max(int(result.completed.sum()), 1),
        "ttft_p99": float(_quantiles(result, "ttft", np.array([0.99]))[0]),
        "tbt_p99": result.tbt_quantile(0.99),
    }


def _with_front(tails: pl.DataFrame) -> pl.DataFrame:
    objectives = tails.select("usd", "joules", "ttft_p99", "tbt_p99").to_numpy()
    return tails.with_columns(pl.Series("front", on_front(objectives)))
