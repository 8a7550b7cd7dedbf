"""One probe: whether a deployment sustains a workload at its rate, and what it fails by if not.

A rate is sustained when the demanded share of requests meets all limits, every percentile limit holds, and the load is
sustainable: median TTFT at most 2 s (Sarathi-Serve, section 5.1), and likewise the median wait for a decode slot.
Without the last, a finite run of an overloaded system can pass, as the lecture's section 5.1 found.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.cost.contract import CostModel
from twofold.plan.cache import Cache, Recorded, cacheable, key_of
from twofold.simulate.attainment import Latencies, attainment_of, percentile_of
from twofold.simulate.result import Result
from twofold.simulate.rules import most_lost, rules_of
from twofold.simulate.run import simulate
from twofold.spec.deployment import Deployment
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload

SUSTAINABLE_TTFT_S = 2.0
FULL = 0.99


@dataclass(frozen=True)
class Probe:
    """What a run at ``rate`` requests/s showed; ``failed`` None: it was sustained.

    ``attainment`` is None where the run stopped early, since its verdict was certain.
    """

    rate: float
    failed: str | None
    attainment: float | None


def probe(
    workload: Workload,
    deployment: Deployment,
    slo: Slo,
    *,
    roofline: CostModel | None = None,
    cache: Cache | None = None,
) -> Probe:
    """Run ``workload`` as it is until the verdict is certain, or recall from ``cache`` what a run has shown."""
    if not cacheable(deployment):
        cache = None
    key = "" if cache is None else key_of(workload, deployment, slo, roofline)
    recalled = None if cache is None else _recalled(cache, key, slo)
    if isinstance(recalled, str):
        return Probe(workload.rate, recalled, None)
    if recalled is not None:
        return _judged(workload.rate, recalled, slo)
    rules = rules_of(slo, len(workload), SUSTAINABLE_TTFT_S)
    result = simulate(workload, deployment, slo, roofline=roofline, rules=rules)
    if cache is not None:
        _keep(cache, key, slo, result)
    return _judged(workload.rate, result, slo)


def _judged(rate: float, found: Latencies, slo: Slo) -> Probe:
    return Probe(rate, binding_limit(found, slo), None if found.stopped else attainment_of(found, slo))


def _recalled(cache: Cache, key: str, slo: Slo) -> Recorded | str | None:
    """A run to the end that ``slo`` can be judged on, or what a run that stopped early failed ``slo`` by."""
    whole = cache.get(key)
    recorded = None if whole is None else Recorded.from_bytes(whole)
    if recorded is not None and recorded.judges(slo):
        return recorded
    verdict = cache.get(f"{key} {slo!r}")
    return None if verdict is None else verdict.decode()


def _keep(cache: Cache, key: str, slo: Slo, result: Result) -> None:
    if result.stopped:
        cache.put(f"{key} {slo!r}", str(binding_limit(result, slo)).encode())
    else:
        cache.put(key, Recorded.of(result, slo).to_bytes())


def binding_limit(result: Latencies, slo: Slo) -> str | None:
    """What a run failed by most: a limit of the SLO, or ``queue`` (not sustainable); None when it passed.

    ``(KV full)`` is added where memory was exhausted, which is what most often lies behind it.
    """
    failed = _failed(result, slo)
    if failed is None:
        return None
    full = result.kv_peak >= FULL
    return f"{failed} (KV full)" if full else failed


def _failed(result: Latencies, slo: Slo) -> str | None:
    if slo.limits and attainment_of(result, slo) < slo.attainment:
        missed = {metric: _missed(result, metric, limit) for metric, limit in slo.limits.items()}
        worst = max(missed, key=lambda metric: missed[metric])
        allowed = most_lost(len(result.ttft_s), slo.attainment)
        if not result.stopped or sum(missed.values()) > allowed:
            return worst
        if not slo.percentiles:
            return "queue"
    for limit in slo.percentiles:
        if percentile_of(result, limit) > limit.limit_s:
            return str(limit).split("<=")[0].strip()
    ttft = np.where(np.isnan(result.ttft_s), np.inf, result.ttft_s)
    late = np.median(ttft) > SUSTAINABLE_TTFT_S or np.median(result.slot_wait_s) > SUSTAINABLE_TTFT_S
    return "queue" if late else None


def _missed(result: Latencies, metric: str, limit: float) -> int:
    """Requests known to be beyond the limit; in a run to the end those without a value are as well."""
    columns: dict[str, NDArray[Any]] = {
        "ttft": result.ttft_s,
        "tpot": result.tpot_s,
        "tbt": result.max_tbt_s,
        "e2e": result.e2e_s,
    }
    values = columns[metric]
    unknown = 0 if result.stopped else int(np.isnan(values).sum())
    return int((values > limit).sum()) + unknown
