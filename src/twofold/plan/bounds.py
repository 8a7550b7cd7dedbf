"""An optimistic bound on the goodput of a deployment: no schedule of it sustains a higher rate.

The least of what compute, memory bandwidth, KV memory and links allow within the deadlines, and zero when too few
requests meet the SLO with the deployment to themselves. ``tests/plan/test_bounds.py`` holds it above simulation.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from twofold.cost.contract import CostModel
from twofold.plan.deadlines import Demand, demands
from twofold.plan.demand import ROUNDING, Duties, Floats, Traffic, duties, highest_rate, traffic_of
from twofold.plan.goodput import Grid
from twofold.plan.parts import Part, decode_parts, elsewhere, link_parts, prefill_parts
from twofold.plan.preemption import most_preempted
from twofold.plan.work import Work
from twofold.spec import catalog
from twofold.spec.deployment import Deployment
from twofold.spec.group import Group
from twofold.spec.model import Model
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload


@dataclass(frozen=True)
class Bound:
    """No rate above ``rate`` requests/s is sustained; ``limit`` says by what."""

    rate: float
    limit: str


@dataclass(eq=False)
class Bounds:
    """Bounds for one workload, model and SLO; what two deployments have in common is computed once."""

    workload: Workload
    model: Model
    slo: Slo
    grid: Grid
    roofline: CostModel | None = None
    traffic: Traffic = field(init=False)
    _works: dict[str, Work] = field(default_factory=dict)
    _asked: dict[tuple[object, ...], tuple[Duties | None, dict[int, float]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.traffic = traffic_of(self.workload)
        self.demands = demands(self.slo, len(self.workload))
        self.rates = [self.grid.rate(k) for k in range(self.grid.lowest, self.grid.highest + 1)]

    def __call__(self, deployment: Deployment) -> Bound:
        """The bound of ``deployment``."""
        entry, exits = self._sides(deployment)
        alone = self._alone(deployment, entry, exits)
        if alone is not None:
            return Bound(0.0, alone)
        least = Bound(math.inf, "none")
        for demand in self.demands:
            for part in self._parts(deployment, entry, exits, demand):
                rate = self._rate(part, demand)
                if rate < least.rate:
                    least = Bound(rate, part.name)
        return least

    def fewest(self, deployment: Deployment, rate: float) -> tuple[int, int] | None:
        """Replicas that prefill and replicas that decode without which ``rate`` requests/s cannot be sustained.

        ``deployment`` has one group for each, or one for both. None when no number of them would do.
        """
        entry, exits = self._sides(deployment)
        if self._alone(deployment, entry, exits) is not None:
            return None
        needed = {"prefill": 1, "decode": 1, "fabric": 1}
        for demand in self.demands:
            for part in self._parts(deployment, entry, exits, demand):
                asked, _ = self._duties(part, demand)
                if asked is not None:
                    least = math.ceil(asked.replicas_needed(rate) * (1.0 - ROUNDING))
                    needed[part.side] = max(needed[part.side], least)
        return None if needed["fabric"] > 1 else (needed["prefill"], needed["decode"])

    def _sides(self, deployment: Deployment) -> tuple[list[Work], list[Work]]:
        """The work on each group that prefills, and on each that decodes."""
        works = [self._work(group, deployment) for group in deployment.groups]
        if deployment.mixed_pool:
            return works, works
        named = list(zip(deployment.groups, works, strict=True))
        entry = [work for group, work in named if group.role != "decode"]
        return entry, [work for group, work in named if group.role != "prefill"]

    def _work(self, group: Group, deployment: Deployment) -> Work:
        device, lent = catalog.device(group.device or deployment.device or ""), deployment.mixed_pool
        key = group.model_dump_json(exclude={"count", "device"}, exclude_defaults=True) + device.model_dump_json()
        key += " lent" * lent
        if key not in self._works:
            self._works[key] = Work(key, self.traffic, group, device, self.model, self.roofline, lent)
        return self._works[key]

    def _alone(self, deployment: Deployment, entry: Sequence[Work], exits: Sequence[Work]) -> str | None:
        """The limit that too many requests break even alone, if any."""
        first = np.min([work.alone_first_s() for work in entry], axis=0) * (1.0 - ROUNDING)
        gap = _least_gap(deployment, entry, exits) * (1.0 - ROUNDING)
        decodes = self.traffic.decodes
        whole = self.traffic.prompt + decodes + 1.0
        too_long = whole > max(work.kv_tokens for work in entry)
        too_long |= (decodes > 0) & (whole > max(work.kv_tokens for work in exits))
        checks = (
            ("ttft", lambda demand: first > demand.first),
            ("tpot", lambda demand: gap > demand.gap_s),
            ("e2e", lambda demand: first + gap * decodes > demand.end_s),
            ("KV memory", lambda demand: too_long),
        )
        for demand in self.demands:
            lost = np.zeros(len(self.traffic), bool)
            for name, broken in checks:
                lost |= broken(demand)
                if lost.sum() > demand.excused:
                    return f"{name} of a request alone"
        return None

    def _parts(
        self, deployment: Deployment, entry: Sequence[Work], exits: Sequence[Work], demand: Demand
    ) -> Iterator[Part]:
        groups, mixed = deployment.groups, deployment.mixed_pool
        if demand.first < math.inf:
            yield from prefill_parts(entry, tuple(group.count for group in groups if mixed or group.role != "decode"))
        if demand.gap_s == math.inf and demand.end_s == math.inf:
            return
        counts = tuple(group.count for group in groups if mixed or group.role != "prefill")
        yield from decode_parts(deployment, exits, counts, demand.gap_s)
        if not mixed and all(group.role != "both" for group in groups):
            moved = np.where(self.traffic.decodes > 0, self.traffic.fresh, 0.0) * self.model.kv_bytes_per_token
            yield from link_parts(deployment, moved)

    def _rate(self, part: Part, demand: Demand) -> float:
        asked, known = self._duties(part, demand)
        return math.inf if asked is None else highest_rate(asked, part.replicas, self.rates, known)

    def _duties(self, part: Part, demand: Demand) -> tuple[Duties | None, dict[int, float]]:
        key = (*part.key, part.name, demand)
        if key not in self._asked:
            slack = demand.finish(self.traffic) if part.finish else np.full(len(self.traffic), demand.first)
            unlimited = part.finish and not np.isfinite(slack).any()
            asked = None
            if not unlimited:
                asked = duties(self.traffic, part.works[0], slack, demand.excused, part.spared_s())
            self._asked[key] = asked, {}
        return self._asked[key]


def _least_gap(deployment: Deployment, entry: Sequence[Work], exits: Sequence[Work]) -> Floats:
    """The least mean gap between tokens with nobody else there.

    A preempted request may get tokens where it is prefilled: after a whole prompt, unless a cache has kept it.
    """
    found = [work.alone_gap_s() for work in exits]
    if elsewhere(deployment, exits) and most_preempted(exits, bool(deployment.faults)):
        for work in entry:
            again = 0.0 if work.traffic.hashed else work.alone_first_s()
            found.append(np.where(work.traffic.decodes > 0, np.maximum(work.alone_gap_s(), again), 0.0))
    least: Floats = np.min(found, axis=0)
    return least
