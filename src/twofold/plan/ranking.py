"""A finished plan: the ranked deployments, and the evidence for the ranking."""

from dataclasses import dataclass, field
from typing import Any

from twofold.cost.contract import CostModel
from twofold.plan.certify import Entry
from twofold.plan.document import PLAN_VERSION, deployment_mapping
from twofold.plan.goodput import BOUND, Goodput
from twofold.plan.objective import Objective
from twofold.plan.resources import Resources, price_of, watts_of
from twofold.plan.robust import Regret
from twofold.plan.uncertainty import Doubt, Interval
from twofold.spec.deployment import Deployment
from twofold.spec.model import Model
from twofold.spec.notation import MIXED_POOL
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload


@dataclass(frozen=True)
class Certificate:
    """What the ranking rests on.

    Of so many ``candidates``, some were ruled out by their bound without a simulation, some by simulating one rate or
    a few, the others were ``measured``. ``gap``: how much better than the best an unexamined one could be, as a share;
    infinite where one of them has no bound yet. ``stopped`` is ``time`` or ``interrupted`` where the search ended
    early, with so many ``unexamined``; not ``whole``: before all candidates were listed. The first ``proved`` ranks
    are certain; those after them were measured on the way, and others may belong between them.
    """

    candidates: int
    pruned_by_bound: int
    pruned_by_probe: int
    measured: int
    gap: float
    stopped: str | None = None
    unexamined: int = 0
    proved: int = 0
    whole: bool = True


@dataclass(frozen=True)
class Candidate:
    """A deployment and its goodput.

    ``low`` and ``high`` are its 90 % interval in requests/s (None: not resampled) and ``swaps_with`` the ranks that
    the noise could swap with its own; ``cost_error`` is how near the cost model knows it (relative, one standard
    deviation; None: not known) and ``not_told_from`` the ranks that it cannot tell from this one; no rate above
    ``bound`` is possible, for ``bound_limit``; ``trap`` is the rate at which a short replay passed while the queue
    still grew; ``confirmed``: a longer replay has been made; ``tails``: P99 of TTFT and of TBT in seconds at the
    target rate, on a front.
    """

    deployment: Deployment
    found: Goodput
    bound: float
    bound_limit: str
    low: float | None = None
    high: float | None = None
    swaps_with: tuple[int, ...] = ()
    cost_error: float | None = None
    not_told_from: tuple[int, ...] = ()
    trap: float | None = None
    confirmed: bool = False
    tails: tuple[float, float] | None = None

    @classmethod
    def of(cls, entry: Entry, interval: Interval | None, doubt: Doubt | None = None) -> "Candidate":
        """The candidate of a measured entry."""
        found = entry.found or Goodput(0.0, 0.0, "none", 0)
        if found.limit == BOUND:
            found = Goodput(found.rate, found.attainment, entry.bound.limit, found.probes)
        return cls(
            deployment=entry.deployment,
            found=found,
            bound=entry.bound.rate,
            bound_limit=entry.bound.limit,
            low=None if interval is None else interval.low,
            high=None if interval is None else interval.high,
            swaps_with=() if interval is None else interval.swaps_with,
            cost_error=None if doubt is None else doubt.error,
            not_told_from=() if doubt is None else doubt.not_told_from,
            trap=entry.trap,
            confirmed=entry.lasts,
            tails=entry.tails,
        )

    @property
    def label(self) -> str:
        """Its notation, and what the notation leaves out."""
        return f"{self.deployment}{MIXED_POOL if self.deployment.mixed_pool else ''}"

    @property
    def per_device(self) -> float:
        """Goodput per device, requests/s."""
        return self.found.rate / self.deployment.devices_total

    def row(self) -> dict[str, Any]:
        """As the ranked table and the plan file have it."""
        return {
            "deployment": self.label,
            "devices": self.deployment.devices_total,
            "goodput_req_s": self.found.rate,
            "goodput_per_device_req_s": self.per_device,
            "usd_per_hour": price_of(self.deployment),
            "watts": watts_of(self.deployment),
            "attainment": self.found.attainment,
            "limit": self.found.limit,
            "bound_req_s": self.bound,
            "bound_limit": self.bound_limit,
            "low_req_s": self.low,
            "high_req_s": self.high,
            "swaps_with": list(self.swaps_with),
            "cost_error": self.cost_error,
            "not_told_from": list(self.not_told_from),
            "trap_req_s": self.trap,
            "confirmed": self.confirmed,
            "probes": self.found.probes,
            "p99_ttft_s": None if self.tails is None else self.tails[0],
            "p99_tbt_s": None if self.tails is None else self.tails[1],
            "spec": deployment_mapping(self.deployment),
        }


@dataclass(frozen=True)
class Plan:
    """The ranked candidates, best first, and what they were ranked for.

    ``regret`` is the table of several workloads, where the ranking is by it. ``workload`` is what was replayed, the
    given one ``repeats`` times over.
    """

    candidates: list[Candidate]
    model: Model
    resources: Resources
    slo: Slo
    workload: Workload
    objective: Objective
    certificate: Certificate
    roofline: CostModel | None = None
    regret: Regret | None = None
    repeats: int = 1
    rows: list[dict[str, Any]] = field(init=False)

    def __post_init__(self) -> None:
        proved = self.certificate.proved if self.regret is None else 0
        rows = [each.row() | {"proved": rank <= proved} for rank, each in enumerate(self.candidates, 1)]
        object.__setattr__(self, "rows", rows)

    @property
    def best(self) -> Candidate:
        """The candidate that serves the objective best."""
        return self.candidates[0]

    @property
    def budget(self) -> dict[str, int | None]:
        """Devices by kind; None where only dollars or watts limit them."""
        return self.resources.counts()

    def to_dict(self) -> dict[str, Any]:
        """The plan file: seconds, requests/s."""
        return {
            "version": PLAN_VERSION,
            "model": self.model.name,
            "gpus": self.budget,
            "usd_per_hour": self.resources.usd_per_hour,
            "watts": self.resources.watts,
            "objective": self.objective.name,
            "target_rate_req_s": self.objective.target,
            "slo": str(self.slo),
            "workload": self.workload.describe(),
            "certificate": vars(self.certificate),
            "graph_tokens": graph_tokens(self.roofline),
            "regret": None if self.regret is None else self.regret.to_dict(),
            "best": self.rows[0],
            "candidates": self.rows,
        }


def graph_tokens(costs: CostModel | None) -> int:
    """Up to so many tokens a cost model pads a step to a captured CUDA graph; 0 where it does not."""
    beneath = getattr(costs, "roofline", costs)
    return int(getattr(beneath, "graph_tokens", 0))
