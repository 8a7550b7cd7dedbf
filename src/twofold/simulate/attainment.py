"""Whether an SLO is kept: by each request, and over all of them."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from twofold.spec.slo import PercentileLimit, Slo

if TYPE_CHECKING:
    from twofold.simulate.result import Result


def limits_met(result: "Result", slo: Slo) -> NDArray[np.bool_]:
    """For each request: finished, and within every limit on single requests."""
    values = {"ttft": result.ttft_s, "tpot": result.tpot_s, "tbt": result.max_tbt_s, "e2e": result.e2e_s}
    met = result.completed.copy()
    for metric, limit in slo.limits.items():
        met &= values[metric] <= limit
    return met


def attainment_of(result: "Result", slo: Slo) -> float:
    """Share of all requests, refused and unfinished ones included, that met all limits on single requests."""
    return float(limits_met(result, slo).mean())


def percentile_of(result: "Result", limit: PercentileLimit) -> float:
    """The percentile that ``limit`` bounds, in seconds; infinite when a request never got there."""
    share = limit.percentile / 100.0
    if limit.metric == "tbt":
        return result.tbt_quantile(share)
    values = {"ttft": result.ttft_s, "tpot": result.tpot_s, "e2e": result.e2e_s}[limit.metric]
    return float(np.quantile(np.where(np.isnan(values), np.inf, values), share, method="inverted_cdf"))
