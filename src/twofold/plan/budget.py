"""The token budget of a chunked replica: the largest that keeps a limit on gaps between tokens.

Source: Agrawal et al., Sarathi-Serve (OSDI 2024), section 4.3: profile once how long a step of so many tokens takes
and take the largest that keeps the TBT limit; section 5.1: a strict limit is 5 times, a relaxed one 25 times, what a
decode step of 32 requests with prompts of 4096 tokens takes undisturbed. The profile speaks for a step that is full;
the simulation says what a load really makes of it.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from twofold.cost.contract import CostModel
from twofold.errors import SpecError
from twofold.plan.probe import SUSTAINABLE_TTFT_S
from twofold.plan.steps import Steps
from twofold.simulate.run import simulate
from twofold.spec import catalog
from twofold.spec.deployment import Deployment
from twofold.spec.device import Device
from twofold.spec.group import Group
from twofold.spec.model import Model
from twofold.spec.workload import Workload

DECODES, CONTEXT = 32, 4096
STRICT, RELAXED = 5.0, 25.0
PERCENTILE = 0.99
TILE = 128
"""Budgets are multiples of this: beyond a tile, a matrix multiplication pays for the whole next one (section 4.3)."""
GRID = tuple(TILE << doublings for doublings in range(8))


@dataclass(frozen=True)
class Profiled:
    """A budget by step costs alone.

    ``step_s``: a step of 32 decodes at context 4096 that prompts of 4096 tokens fill up to the budget. ``overhead``:
    how much longer such a prompt alone takes in chunks of the budget than at once, as a share.
    """

    budget: int
    step_s: float
    overhead: float


@dataclass(frozen=True)
class Simulated:
    """A budget under the load: P99 of all gaps and P50 and P99 of TTFT, in seconds; is the load sustained?"""

    budget: int
    tbt_p99_s: float
    ttft_p50_s: float
    ttft_p99_s: float
    sustained: bool


@dataclass(frozen=True)
class BudgetChoice:
    """The largest budgets that keep ``tbt_limit_s``: ``profiled`` by step cost, ``simulated`` as P99 under the load.

    None: not even the smallest does. ``open_ended``: the largest budget tried does, so there may be a larger one.
    """

    tbt_limit_s: float
    profiled: Profiled | None
    simulated: Simulated | None

    @property
    def open_ended(self) -> bool:
        """Whether the simulation found no budget that is too large."""
        return self.simulated is not None and self.simulated.budget == GRID[-1]

    def to_dict(self) -> dict[str, Any]:
        """The choice as JSON: tokens and seconds."""
        return asdict(self) | {"open_ended": self.open_ended}


@dataclass(frozen=True)
class BudgetStudy:
    """The profile and the runs of :data:`GRID`, and the choice under the strict and the relaxed limit."""

    decode_step_s: float
    profile: tuple[Profiled, ...]
    runs: tuple[Simulated, ...]
    strict: BudgetChoice
    relaxed: BudgetChoice

    def to_dict(self) -> dict[str, Any]:
        """The study as JSON: tokens and seconds."""
        choices = {"strict": self.strict.to_dict(), "relaxed": self.relaxed.to_dict()}
        return asdict(self) | choices


class _Bench:
    """One kind of replica under one workload; each budget is run once."""

    def __init__(
        self, workload: Workload, model: str | Model, device: str | Device, tp: int, pp: int, roofline: CostModel | None
    ) -> None:
        spec, hardware = catalog.model(model), catalog.device(device)
        if not (workload.output_tokens > 1).any():
            raise SpecError(
                "workload", workload.name, "accepted: requests of two output tokens or more, which have gaps"
            )
        self.workload, self.roofline = workload, roofline
        self.steps = Steps(spec, hardware, tp=tp, pp=pp, roofline=roofline)
        self.base = Deployment(model=spec, device=hardware, groups=(Group(tp=tp, pp=pp),))
        self.runs: dict[int, Simulated] = {}

    def profile(self, budget: int) -> Profiled:
        """A full step, and a prompt in chunks of ``budget``."""
        whole, rest = divmod(max(0, budget - DECODES), CONTEXT)
        prompts = [(0, CONTEXT)] * whole + ([(CONTEXT - rest, rest)] if rest else [])
        chunked = sum(self.steps.chunks(CONTEXT, budget))
        overhead = chunked / self.steps.seconds([(0, CONTEXT)]) - 1.0
        return Profiled(budget, self.steps.seconds(prompts, DECODES, CONTEXT), overhead)

    def run(self, budget: int) -> Simulated:
        """The workload on one chunked replica with ``budget``."""
        if budget not in self.runs:
            group = self.base.groups[0].replaced(policy="chunked", budget_tokens=budget)
            result = simulate(self.workload, self.base.replaced(groups=(group,)), roofline=self.roofline)
            ttft = np.where(result.completed, result.ttft_s, np.inf)
            median, tail = np.quantile(ttft, [0.5, PERCENTILE], method="inverted_cdf").tolist()
            sustained = median <= SUSTAINABLE_TTFT_S
            self.runs[budget] = Simulated(budget, result.tbt_quantile(PERCENTILE), median, tail, sustained)
        return self.runs[budget]

    def choose(self, limit_s: float) -> BudgetChoice:
        """The largest budgets that keep ``limit_s``."""
        profiled = _largest(lambda budget: self.profile(budget).step_s <= limit_s)
        simulated = _largest(lambda budget: self.run(budget).tbt_p99_s <= limit_s)
        return BudgetChoice(
            limit_s,
            None if profiled is None else self.profile(profiled),
            None if simulated is None else self.run(simulated),
        )


def _largest(keeps: Callable[[int], bool]) -> int | None:
    """The largest budget of :data:`GRID` that keeps, then in tiles up to the next that does not."""
    low = next((budget for budget in reversed(GRID) if keeps(budget)), None)
    if low is None or low == GRID[-1]:
        return low
    high = 2 * low
    while high - low > TILE:
        middle = (low + high) // (2 * TILE) * TILE
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low


def largest_budget(
    workload: Workload,
    model: str | Model,
    device: str | Device,
    tbt_limit_s: float,
    *,
    tp: int = 1,
    pp: int = 1,
    roofline: CostModel | None = None,
) -> BudgetChoice:
    """The largest budget, in tiles of 128 tokens up to 16,384, that keeps P99 TBT within ``tbt_limit_s``.

    ``workload`` comes at its own rate to one replica on ``tp * pp`` devices. SpecError for a limit that is not above 0,
    for requests without gaps and for a model that does not fit.
    """
    if not 0.0 < tbt_limit_s < float("inf"):
        raise SpecError("tbt_limit_s", tbt_limit_s, "accepted: a time above 0")
    return _Bench(workload, model, device, tp, pp, roofline).choose(tbt_limit_s)


def budget_study(
    workload: Workload,
    model: str | Model,
    device: str | Device,
    *,
    tp: int = 1,
    pp: int = 1,
    roofline: CostModel | None = None,
) -> BudgetStudy:
    """The profile table, the runs, and the budgets for the paper's strict and relaxed limit of this replica."""
    bench = _Bench(workload, model, device, tp, pp, roofline)
    alone = bench.steps.seconds((), DECODES, CONTEXT)
    return BudgetStudy(
        decode_step_s=alone,
        profile=tuple(map(bench.profile, GRID)),
        runs=tuple(map(bench.run, GRID)),
        strict=bench.choose(STRICT * alone),
        relaxed=bench.choose(RELAXED * alone),
    )
