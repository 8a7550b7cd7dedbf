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
from twofold.plan.demand import Duties, Floats, Traffic, duties, highest_rate, traffic_of
from twofold.plan.goodput import Grid
from twofold.plan.work import Work
from twofold.spec import catalog
from twofold.spec.deployment import Deployment
from twofold.spec.group import Group
from twofold.spec.model import Model
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload

APART = ("prefill-first", "request-level")


@dataclass(frozen=True)
class Bound:
    """No rate above ``rate`` requests/s is sustained; ``limit`` says by what."""

    rate: float
    limit: str


@dataclass(frozen=True, eq=False)
class Part:
    """Work that certain replicas share: ``works`` one array a group, ``counts`` its replicas; what it is for.

    ``decodes``: replicas that decode share it, else those that prefill; ``finish``: it is due by the last token.
    """

    name: str
    key: tuple[object, ...]
    works: tuple[Floats, ...]
    counts: tuple[int, ...]
    decodes: bool
    finish: bool = True

    @property
    def replicas(self) -> float:
        """Replicas in units of the first group's: a group counts as if all its work were what suits it best."""
        first = self.works[0]
        used = first > 0.0
        total = float(self.counts[0])
        for work, count in zip(self.works[1:], self.counts[1:], strict=True):
            total += count / max(1e-12, float((work[used] / first[used]).min())) if used.any() else count
        return total


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
        alone = self._alone(entry, exits)
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
        if self._alone(entry, exits) is not None:
            return None
        needed = [1, 1]
        for demand in self.demands:
            for part in self._parts(deployment, entry, exits, demand):
                asked, _ = self._duties(part, demand)
                if asked is not None:
                    least = math.ceil(asked.replicas_needed(rate) - 1e-9)
                    needed[part.decodes] = max(needed[part.decodes], least)
        return needed[0], needed[1]

    def _sides(self, deployment: Deployment) -> tuple[list[Work], list[Work]]:
        """The work on each group that prefills, and on each that decodes."""
        works = [self._work(group, deployment) for group in deployment.groups]
        if deployment.mixed_pool:
            return works, works
        named = list(zip(deployment.groups, works, strict=True))
        entry = [work for group, work in named if group.role != "decode"]
        return entry, [work for group, work in named if group.role != "prefill"]

    def _work(self, group: Group, deployment: Deployment) -> Work:
        device = catalog.device(group.device or deployment.device or "")
        key = group.model_dump_json(exclude={"count", "device"}, exclude_defaults=True) + device.model_dump_json()
        if key not in self._works:
            self._works[key] = Work(key, self.traffic, group, device, self.model, self.roofline)
        return self._works[key]

    def _alone(self, entry: Sequence[Work], exits: Sequence[Work]) -> str | None:
        """The limit that too many requests break even alone, if any."""
        first = np.min([work.alone_first_s() for work in entry], axis=0)
        gap = np.min([work.alone_gap_s() for work in exits], axis=0)
        room = max(work.kv_tokens for work in exits)
        checks = (
            ("ttft", lambda demand: first > demand.first),
            ("tpot", lambda demand: gap > demand.gap_s),
            ("e2e", lambda demand: first + gap * self.traffic.decodes > demand.end_s),
            ("KV memory", lambda demand: self.traffic.prompt + self.traffic.decodes > room),
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
        groups = deployment.groups
        counts = {role: tuple(group.count for group in groups if group.role != role) for role in ("prefill", "decode")}
        if deployment.mixed_pool:
            counts = dict.fromkeys(counts, tuple(group.count for group in groups))
        prefill, decode = counts["decode"], counts["prefill"]
        if demand.first < math.inf:
            computing = tuple(_prefill(work) for work in entry)
            yield Part("prefill compute", tuple(work.key for work in entry), computing, prefill, False, finish=False)
        if demand.gap_s == math.inf and demand.end_s == math.inf:
            return
        alone = len(groups) == 1
        yield _part("decode compute", exits, decode, [_multiplying(work, alone) for work in exits])
        for name, steps in _step_counts(exits, demand.gap_s, alone):
            works = [_reading(work, count, alone) for work, count in zip(exits, steps, strict=True)]
            yield _part(name, exits, decode, works)
        if not alone and not deployment.mixed_pool and all(group.role != "both" for group in groups):
            yield from self._links(deployment)

    def _links(self, deployment: Deployment) -> Iterator[Part]:
        moved = np.where(self.traffic.decodes > 0, self.traffic.fresh, 0.0) * self.model.kv_bytes_per_token
        for role in ("prefill", "decode"):
            groups = [group for group in deployment.groups if group.role == role]
            rates = [_port(deployment, group) for group in groups]
            counts = tuple(group.count for group in groups)
            works = tuple(moved / rate for rate in rates)
            yield Part("link", ("link", *rates), works, counts, role == "decode")
        if deployment.fabric_bytes_per_s:
            rate = deployment.fabric_bytes_per_s
            yield Part("fabric", ("fabric", rate), (moved / rate,), (1,), False)

    def _rate(self, part: Part, demand: Demand) -> float:
        asked, known = self._duties(part, demand)
        return math.inf if asked is None else highest_rate(asked, part.replicas, self.rates, known)

    def _duties(self, part: Part, demand: Demand) -> tuple[Duties | None, dict[int, float]]:
        key = (*part.key, part.name, demand)
        if key not in self._asked:
            slack = demand.finish(self.traffic) if part.finish else np.full(len(self.traffic), demand.first)
            unlimited = part.finish and not np.isfinite(slack).any()
            self._asked[key] = None if unlimited else duties(self.traffic, part.works[0], slack, demand.excused), {}
        return self._asked[key]


def _part(name: str, works: Sequence[Work], counts: tuple[int, ...], amounts: Sequence[Floats]) -> Part:
    return Part(name, tuple(work.key for work in works), tuple(amounts), counts, True)


def _prefill(work: Work) -> Floats:
    """Prefill alone: multiplying, with what is fixed for every step that the budget makes necessary."""
    return work.prefill_s + work.fixed_s * work.traffic.fresh / work.step_tokens


def _multiplying(work: Work, alone: bool) -> Floats:
    """All multiplying of a colocated replica, or that of decoding: a multiplexed one has a lane for it."""
    both = alone and work.group.policy != "multiplexed"
    flops = work.decode_flops_s + (work.prefill_s if both else 0.0)
    return np.asarray(flops + work.fixed_s * work.token_steps(both))


def _reading(work: Work, steps: Floats, alone: bool) -> Floats:
    """Reading in so many decode steps; where prompts have steps of their own, their time comes on top."""
    reading = work.decode_bytes_s + work.weights_s * steps
    return np.asarray(reading + (work.prefill_s if alone and work.group.policy in APART else 0.0))


def _step_counts(works: Sequence[Work], gap_s: float, alone: bool) -> Iterator[tuple[str, list[Floats]]]:
    yield "decode batch", [work.batch_steps for work in works]
    yield "KV memory", [work.memory_steps for work in works]
    both = alone and works[0].group.policy != "multiplexed"
    yield "token budget", [work.token_steps(both) for work in works]
    if gap_s < math.inf and len(works) == 1:
        steps = works[0].gap_steps(gap_s)
        if steps is not None:
            yield "decode bandwidth", [steps]


def _port(deployment: Deployment, group: Group) -> float:
    """Bytes/s of one replica's port, as the simulator has it."""
    device = catalog.device(group.device or deployment.device or "")
    link = catalog.link(deployment.link or device.inter_link)
    return link.effective * (group.tp * group.pp if deployment.link_per == "device" else 1)
