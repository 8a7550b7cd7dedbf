"""The highest rate that a deployment sustains under an SLO, by bisection on the simulator.

Rates lie on one grid, powers of a ratio, so that all deployments are asked about the same rates.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from twofold.cost.contract import CostModel
from twofold.plan.probe import Probe, probe
from twofold.spec.deployment import Deployment
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload

PRECISION = 0.02
LOWEST_RATE = 1e-3
HIGHEST_RATE = 1e6
FIRST_STRIDE = 3
BOUND = "bound"
"""The limit of a goodput that passed at the highest step it was asked about."""


@dataclass(frozen=True)
class Goodput:
    """``rate`` requests/s sustained (0: none), ``attainment`` there, ``limit`` that stops it above, probes made."""

    rate: float
    attainment: float
    limit: str
    probes: int


@dataclass(frozen=True)
class Grid:
    """Rates (1 + ``precision``)^k in requests/s."""

    precision: float = PRECISION

    def rate(self, k: int) -> float:
        """The rate of step ``k``."""
        return float((1.0 + self.precision) ** k)

    def below(self, rate: float) -> int:
        """The highest step whose rate is at most ``rate`` (to rounding)."""
        return math.floor(math.log(rate) / math.log1p(self.precision) + 1e-9)

    @property
    def lowest(self) -> int:
        """The first step that is tried."""
        return self.below(LOWEST_RATE)

    @property
    def highest(self) -> int:
        """The last step that is tried."""
        return self.below(HIGHEST_RATE)


def goodput(
    workload: Workload,
    deployment: Deployment,
    slo: Slo,
    *,
    guess: float = 1.0,
    precision: float = PRECISION,
    roofline: CostModel | None = None,
) -> Goodput:
    """Bisect the sustained rate of ``workload``'s requests, in their order, with their gaps scaled.

    All candidates see the same requests (common random numbers). The answer is within ``precision`` of the rate at
    which the verdict changes. ``guess`` is where to start.
    """
    grid = Grid(precision)

    def ask(k: int) -> Probe:
        return probe(workload.at_rate(grid.rate(k)), deployment, slo, roofline=roofline)

    return climb(ask, grid, grid.below(guess), grid.lowest, grid.highest)


def climb(
    ask: Callable[[int], Probe], grid: Grid, start: int, lowest: int, highest: int, stride: int = FIRST_STRIDE
) -> Goodput:
    """The highest step of ``grid`` that ``ask`` passes, from ``lowest`` to ``highest``, tried from ``start`` on.

    From a first ``stride`` on they double until the verdict changes, then bisection. Steps above ``highest`` are taken
    to fail by ``bound``.
    """
    low, high = lowest - 1, highest + 1
    kept: Probe | None = None
    limit, probes = BOUND, 0
    k = min(max(start, lowest), highest)
    while high - low > 1:
        found, probes = ask(k), probes + 1
        if found.failed is None:
            low, kept = k, found
        else:
            high, limit = k, found.failed
        if low >= lowest and high <= highest:
            k = (low + high) // 2
        else:
            k = min(low + stride, high - 1) if low >= lowest else max(high - stride, low + 1)
            stride *= 2
    if kept is None:
        return Goodput(0.0, 0.0, limit, probes)
    return Goodput(grid.rate(low), kept.attainment or 0.0, limit, probes)
