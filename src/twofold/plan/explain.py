"""Why a deployment's goodput is what it is, and what would change it: every number is that of a simulation."""

import math
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from twofold.cost.contract import CostModel
from twofold.errors import SpecError
from twofold.plan.causes import Binding, explain_binding
from twofold.plan.goodput import HIGHEST_RATE, PRECISION, goodput
from twofold.plan.improved import MORE, resources, with_more
from twofold.plan.occupancy import Occupancy, occupancies
from twofold.plan.probe import binding_limit
from twofold.simulate.attainment import attainment_of
from twofold.simulate.result import Result
from twofold.simulate.run import simulate
from twofold.spec.deployment import Deployment
from twofold.spec.notation import format_group
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload

TIGHTER, LOOSER = 0.75, 1.25
ALONE = 0.01
MOST_COPIES = 4


@dataclass(frozen=True)
class Gain:
    """Goodput once there is more of something: one more replica of a group, or 25 % more of a resource.

    ``devices`` that this adds, ``rate`` the goodput then, ``gained`` over what it was, requests/s; infinite where the
    requests are too few to overload it.
    """

    what: str
    devices: int
    rate: float
    gained: float

    @property
    def per_device(self) -> float | None:
        """Requests/s gained by each added device; None where none is added."""
        return self.gained / self.devices if self.devices else None

    def to_dict(self) -> dict[str, Any]:
        """The gain as JSON."""
        return asdict(self) | {"per_device": self.per_device}


@dataclass(frozen=True)
class Change:
    """Another SLO or another rate: attainment and the limit that fails (None: it holds) on the devices there are.

    ``carried_by``: devices of as many whole copies of the deployment as hold it; None: not even four copies do.
    """

    what: str
    slo: Slo
    rate: float
    attainment: float
    limit: str | None
    carried_by: int | None

    def to_dict(self) -> dict[str, Any]:
        """The change as JSON."""
        return asdict(self) | {"slo": str(self.slo)}


@dataclass(frozen=True)
class Explanation:
    """What is known of ``deployment`` at its goodput.

    ``groups`` and ``breakdown_s`` (mean seconds of a request in each phase) are of the run at the goodput, ``binding``
    and ``groups_above`` of the run just above it.
    """

    deployment: Deployment
    slo: Slo
    goodput_req_s: float
    attainment: float
    groups: tuple[Occupancy, ...]
    breakdown_s: dict[str, float]
    binding: Binding
    groups_above: tuple[Occupancy, ...]
    one_more: tuple[Gain, ...]
    resources: tuple[Gain, ...]
    changes: tuple[Change, ...]

    def to_dict(self) -> dict[str, Any]:
        """The explanation as JSON: seconds, requests/s, shares of one."""
        return {
            "deployment": str(self.deployment),
            "devices": self.deployment.devices_total,
            "slo": str(self.slo),
            "goodput_req_s": self.goodput_req_s,
            "attainment": self.attainment,
            "groups": [group.to_dict() for group in self.groups],
            "breakdown_s": self.breakdown_s,
            "binding": self.binding.to_dict(),
            "groups_above": [group.to_dict() for group in self.groups_above],
            "one_more": [gain.to_dict() for gain in self.one_more],
            "resources": [gain.to_dict() for gain in self.resources],
            "changes": [change.to_dict() for change in self.changes],
        }


def explain(
    workload: Workload,
    deployment: Deployment,
    slo: Slo | str,
    goodput: float,
    *,
    roofline: CostModel | None = None,
) -> Explanation:
    """Explain the ``goodput`` (requests/s) that was found for ``deployment`` with ``workload`` under ``slo``.

    Fifty to a hundred runs of the workload. SpecError when it is not above 0, or is not where the verdict changes.
    """
    if not 0.0 < goodput < float("inf"):
        raise SpecError("goodput", goodput, "accepted: a rate above 0 that the deployment sustains, in requests/s")
    case = _Case(workload, Slo.parse(slo), goodput, roofline, deployment)
    below, (above, limit) = case.run(deployment), case.first_failure(deployment)
    groups_above = occupancies(above)
    return Explanation(
        deployment=deployment,
        slo=case.slo,
        goodput_req_s=goodput,
        attainment=attainment_of(below, case.slo),
        groups=occupancies(below),
        breakdown_s=below.breakdown(),
        binding=explain_binding(
            above,
            case.slo,
            limit,
            groups_above,
            alone=case.run(deployment, ALONE * goodput),
            bursts=case.only_bursts(above),
        ),
        groups_above=groups_above,
        one_more=tuple(case.one_more(deployment)),
        resources=tuple(case.more_of(deployment, resource) for resource in resources(deployment)),
        changes=tuple(case.changes(deployment)),
    )


@dataclass(frozen=True)
class _Case:
    """What all questions about one deployment share."""

    workload: Workload
    slo: Slo
    rate: float
    roofline: CostModel | None
    deployment: Deployment

    def run(self, deployment: Deployment, rate: float | None = None, slo: Slo | None = None) -> Result:
        asked = self.workload.at_rate(rate or self.rate)
        return simulate(asked, deployment, slo or self.slo, roofline=self.roofline)

    def first_failure(self, deployment: Deployment) -> tuple[Result, str]:
        """The run at the lowest rate tried above the goodput, up to twice, that is not sustained, and what fails."""
        step = 1.0 + PRECISION
        while step <= 2.0:
            result = self.run(deployment, step * self.rate)
            if (limit := binding_limit(result, self.slo)) is not None:
                return result, limit
            step *= step
        raise SpecError("goodput", self.rate, f"accepted: where the verdict changes; {deployment} sustains far more")

    def only_bursts(self, above: Result) -> bool:
        """Whether the requests of a run that failed, evenly spaced, are sustained at a quarter more than its rate."""
        spaced = np.arange(len(above)) / (MORE * above.workload.rate)
        result = simulate(self.workload.with_arrivals(spaced), above.deployment, self.slo, roofline=self.roofline)
        return binding_limit(result, self.slo) is None

    def gain(self, what: str, changed: Deployment, devices: int) -> Gain:
        """Against the goodput of the deployment found in the same way; what is within the precision is none."""
        rate = self.sustained(changed)
        gained = rate - self.base
        return Gain(what, devices, rate, 0.0 if abs(gained) <= 1.5 * PRECISION * self.base else gained)

    @cached_property
    def base(self) -> float:
        return self.sustained(self.deployment)

    def sustained(self, deployment: Deployment) -> float:
        found = goodput(self.workload, deployment, self.slo, guess=self.rate, roofline=self.roofline)
        return math.inf if found.rate > HIGHEST_RATE / 2.0 else found.rate

    def one_more(self, deployment: Deployment) -> list[Gain]:
        found = []
        for place, group in enumerate(deployment.groups):
            groups = list(deployment.groups)
            groups[place] = group.replaced(count=group.count + 1)
            added = format_group(group.replaced(count=1))
            found.append(self.gain(added, deployment.replaced(groups=tuple(groups)), group.tp * group.pp))
        return found

    def more_of(self, deployment: Deployment, resource: str) -> Gain:
        return self.gain(resource, with_more(deployment, resource), 0)

    def changes(self, deployment: Deployment) -> list[Change]:
        return [
            self.change("slo 25 % tighter", deployment, self.rate, self.slo.scaled(TIGHTER)),
            self.change("slo 25 % looser", deployment, self.rate, self.slo.scaled(LOOSER)),
            self.change("twice the rate", deployment, 2.0 * self.rate, self.slo),
        ]

    def change(self, what: str, deployment: Deployment, rate: float, slo: Slo) -> Change:
        result = self.run(deployment, rate, slo)
        limit = binding_limit(result, slo)
        copies = 1 if limit is None else self.copies_for(deployment, rate, slo)
        carried = None if copies is None else copies * deployment.devices_total
        return Change(what, slo, rate, attainment_of(result, slo), limit, carried)

    def copies_for(self, deployment: Deployment, rate: float, slo: Slo) -> int | None:
        for copies in range(2, MOST_COPIES + 1):
            if binding_limit(self.run(_copies(deployment, copies), rate, slo), slo) is None:
                return copies
        return None


def _copies(deployment: Deployment, copies: int) -> Deployment:
    groups = tuple(group.replaced(count=copies * group.count) for group in deployment.groups)
    return deployment.replaced(groups=groups)
