"""The highest rate that a deployment sustains under an SLO, by bisection on the simulator.

A rate is sustained when the demanded share of requests meets all limits, every percentile limit holds, and the load is
sustainable: median TTFT at most 2 s (Sarathi-Serve, section 5.1). Without the last, a finite run of an overloaded
system can pass, as the lecture's section 5.1 found.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from twofold.cost.roofline import Roofline
from twofold.simulate.attainment import attainment_of, limits_met, percentile_of
from twofold.simulate.result import Result
from twofold.simulate.run import simulate
from twofold.spec.deployment import Deployment
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload

SUSTAINABLE_TTFT_S = 2.0
PRECISION = 0.02
LOWEST_RATE = 1e-3
HIGHEST_RATE = 1e6
FULL = 0.99


@dataclass(frozen=True)
class Goodput:
    """``rate`` requests/s sustained (0: none), ``attainment`` there, ``limit`` that stops it above, probes made."""

    rate: float
    attainment: float
    limit: str
    probes: int


def binding_limit(result: Result, slo: Slo) -> str | None:
    """What a run failed by most: a limit of the SLO, or ``queue`` (not sustainable); None when it passed.

    ``(KV full)`` is added where memory was exhausted, which is what most often lies behind it.
    """
    failed = _failed(result, slo)
    if failed is None:
        return None
    full = result.kv_peak >= FULL
    return f"{failed} (KV full)" if full else failed


def _failed(result: Result, slo: Slo) -> str | None:
    if slo.limits and attainment_of(result, slo) < slo.attainment:
        alone = {metric: _met_alone(result, metric, limit) for metric, limit in slo.limits.items()}
        return min(alone, key=lambda metric: alone[metric])
    for limit in slo.percentiles:
        if percentile_of(result, limit) > limit.limit_s:
            return str(limit).split("<=")[0].strip()
    ttft = np.where(np.isnan(result.ttft_s), np.inf, result.ttft_s)
    return "queue" if np.median(ttft) > SUSTAINABLE_TTFT_S else None


def _met_alone(result: Result, metric: str, limit: float) -> float:
    alone: dict[str, Any] = {f"{metric}_s": limit}
    return float(limits_met(result, Slo(**alone)).mean())


def goodput(
    workload: Workload,
    deployment: Deployment,
    slo: Slo,
    *,
    guess: float = 1.0,
    precision: float = PRECISION,
    roofline: Roofline | None = None,
) -> Goodput:
    """Bisect the sustained rate of ``workload``'s requests, in their order, with their gaps scaled.

    All candidates see the same requests (common random numbers). The answer is within ``precision`` of the rate at
    which the verdict changes. ``guess`` is where to start.
    """
    low, high, kept, limit, probes = 0.0, 0.0, 0.0, "none", 0
    rate = guess
    while LOWEST_RATE <= rate <= HIGHEST_RATE and not (low and high and high / low <= 1.0 + precision):
        result = simulate(workload.at_rate(rate), deployment, slo, roofline=roofline)
        failed, probes = binding_limit(result, slo), probes + 1
        if failed is None:
            low, kept = rate, attainment_of(result, slo)
        else:
            high, limit = rate, failed
        rate = _next_rate(low, high)
    return Goodput(low, kept, limit, probes)


def _next_rate(low: float, high: float) -> float:
    if not high:
        return low * 2.0
    if not low:
        return high / 2.0
    return float(np.sqrt(low * high))
