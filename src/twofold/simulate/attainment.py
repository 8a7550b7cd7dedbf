"""Whether an SLO is kept: by each request, and over all of them."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from twofold.spec.slo import PercentileLimit, Slo

Floats = NDArray[np.float64]


class Latencies(Protocol):
    """What a run has shown, or what was kept of one: one entry a request, seconds, NaN where it never happened."""

    @property
    def ttft_s(self) -> Floats:
        """Arrival to the first token."""
        ...

    @property
    def tpot_s(self) -> Floats:
        """Mean gap between tokens."""
        ...

    @property
    def max_tbt_s(self) -> Floats:
        """Longest gap between tokens."""
        ...

    @property
    def e2e_s(self) -> Floats:
        """Arrival to the last token."""
        ...

    @property
    def slot_wait_s(self) -> Floats:
        """Wait for a decode slot."""
        ...

    @property
    def completed(self) -> NDArray[np.bool_]:
        """Whether each request got all its tokens."""
        ...

    @property
    def kv_peak(self) -> float:
        """Largest share of its KV blocks that any replica has had in use."""
        ...

    @property
    def stopped(self) -> bool:
        """Whether the run ended early."""
        ...

    def tbt_quantile(self, share: float) -> float:
        """The gap that a share of all gaps do not exceed."""
        ...


def limits_met(result: Latencies, slo: Slo) -> NDArray[np.bool_]:
    """For each request: finished, and within every limit on single requests."""
    values = {"ttft": result.ttft_s, "tpot": result.tpot_s, "tbt": result.max_tbt_s, "e2e": result.e2e_s}
    met = result.completed.copy()
    for metric, limit in slo.limits.items():
        met &= values[metric] <= limit
    return met


def attainment_of(result: Latencies, slo: Slo) -> float:
    """Share of all requests, refused and unfinished ones included, that met all limits on single requests."""
    return float(limits_met(result, slo).mean())


def percentile_of(result: Latencies, limit: PercentileLimit) -> float:
    """The percentile that ``limit`` bounds, in seconds; infinite when a request never got there."""
    share = limit.percentile / 100.0
    if limit.metric == "tbt":
        return result.tbt_quantile(share)
    values = {"ttft": result.ttft_s, "tpot": result.tpot_s, "e2e": result.e2e_s}[limit.metric]
    return float(np.quantile(np.where(np.isnan(values), np.inf, values), share, method="inverted_cdf"))
