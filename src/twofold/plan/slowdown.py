"""Objectives relative to an uncontended machine: how much slower than alone a request may be, at three percentiles.

Source: Patel et al., Splitwise (ISCA 2024), table VI: slowdown against the same request alone on a DGX-A100.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from twofold.cost.contract import CostModel
from twofold.errors import SpecError
from twofold.simulate.result import Result
from twofold.simulate.run import simulate
from twofold.spec.deployment import Deployment
from twofold.spec.group import Group
from twofold.spec.model import Model
from twofold.spec.workload import Workload

Floats = NDArray[np.float64]
PERCENTILES = (50.0, 90.0, 99.0)
SPLITWISE = MappingProxyType({"ttft": (2.0, 3.0, 6.0), "tpot": (1.25, 1.5, 5.0), "e2e": (1.25, 1.5, 5.0)})
APART_S = 1e4
"""Gap between requests that are to be alone on a machine."""


@dataclass(frozen=True)
class Slowdown:
    """``limits``: for each metric the largest slowdown at P50, P90 and P99. TBT is a request's mean gap (TPOT)."""

    limits: Mapping[str, tuple[float, float, float]] = field(default_factory=lambda: SPLITWISE)

    def __post_init__(self) -> None:
        for metric, factors in self.limits.items():
            if metric not in SPLITWISE:
                raise SpecError("slowdown", metric, f"accepted: {', '.join(SPLITWISE)}")
            if len(factors) != len(PERCENTILES) or min(factors) < 1.0:
                raise SpecError(f"slowdown.{metric}", factors, "accepted: factors of 1 or more for P50, P90 and P99")

    def broken(self, result: Result, alone: Mapping[str, Floats]) -> str | None:
        """The limit that ``result`` exceeds by the largest factor, such as ``p90 ttft``; None when it keeps all.

        ``alone`` are the times of the same requests from :func:`times_alone`. A request without a value is infinitely
        slow; one without a gap has no TPOT.
        """
        worst, excess = None, 1.0
        for metric, factors in self.limits.items():
            measured = times_of(result)[metric]
            counted = alone[metric] > 0.0
            if not counted.any():
                continue
            slower = measured[counted] / alone[metric][counted]
            slower = np.where(np.isnan(slower), np.inf, slower)
            reached = np.percentile(slower, PERCENTILES, method="inverted_cdf")
            for percentile, factor, at in zip(PERCENTILES, factors, reached, strict=True):
                if at > factor * excess:
                    worst, excess = f"p{percentile:g} {metric}", float(at / factor)
        return worst


def times_of(result: Result) -> dict[str, Floats]:
    """Seconds of every request by metric."""
    return {"ttft": result.ttft_s, "tpot": result.tpot_s, "e2e": result.e2e_s}


def times_alone(
    workload: Workload,
    model: Model,
    *,
    device: str = "A100-80GB",
    tp: int = 8,
    roofline: CostModel | None = None,
) -> dict[str, Floats]:
    """Seconds of every request by metric when it has a machine of ``tp`` devices to itself."""
    group = Group(tp=tp, policy="prefill-first", max_prefill_tokens=int(workload.prompt_tokens.max()))
    one = Deployment(model=model, device=device, groups=(group,))
    spread = workload.with_arrivals(np.arange(len(workload), dtype=np.float64) * APART_S)
    return times_of(simulate(spread, one, roofline=roofline))
