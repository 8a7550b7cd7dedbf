"""``plan``: try every deployment that fits, rank them by goodput."""

from dataclasses import dataclass
from typing import Any

from twofold.cost.roofline import Roofline
from twofold.errors import SpecError
from twofold.plan.goodput import Goodput, goodput
from twofold.plan.space import candidates
from twofold.simulate.run import Progress
from twofold.spec import catalog
from twofold.spec.deployment import Deployment
from twofold.spec.model import Model
from twofold.spec.notation import parse_budget
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload

PLAN_VERSION = 1
REQUESTS = 2000


@dataclass(frozen=True)
class Candidate:
    """A deployment and the goodput that was found for it."""

    deployment: Deployment
    found: Goodput

    @property
    def per_device(self) -> float:
        """Goodput per device, requests/s."""
        return self.found.rate / self.deployment.devices_total

    def row(self) -> dict[str, Any]:
        """As the ranked table shows it."""
        return {
            "deployment": str(self.deployment),
            "devices": self.deployment.devices_total,
            "goodput_req_s": self.found.rate,
            "goodput_per_device_req_s": self.per_device,
            "attainment": self.found.attainment,
            "limit": self.found.limit,
            "probes": self.found.probes,
        }


@dataclass(frozen=True)
class Plan:
    """The ranked candidates, best first, and what they were ranked for."""

    candidates: list[Candidate]
    model: Model
    budget: dict[str, int]
    slo: Slo
    workload: Workload

    @property
    def best(self) -> Candidate:
        """The candidate with the highest goodput."""
        return self.candidates[0]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The ranked table, best first."""
        return [candidate.row() for candidate in self.candidates]

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON: seconds, requests/s."""
        return {
            "version": PLAN_VERSION,
            "model": self.model.name,
            "gpus": self.budget,
            "slo": str(self.slo),
            "workload": self.workload.describe(),
            "best": self.best.row(),
            "candidates": self.rows,
        }


def plan(
    workload: Workload,
    *,
    model: str | Model | dict[str, Any],
    budget: str,
    slo: Slo | str,
    requests: int = REQUESTS,
    roofline: Roofline | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Rank the deployments of ``model`` on ``budget`` (such as ``"8xH100"``) by the rate they sustain under ``slo``.

    The first ``requests`` requests of the workload are replayed at every probed rate. Raises SpecError when nothing
    fits, and when no candidate meets the SLO at any rate (naming the limit that stops the nearest one).
    """
    limits = Slo.parse(slo)
    if not limits.limits and not limits.percentiles:
        raise SpecError("slo", str(limits), "needs at least one limit")
    count, name = _one_device(budget)
    spec, device = catalog.model(model), catalog.device(name)
    probed = workload.head(requests)
    tried: list[Candidate] = []
    space = candidates(spec, device, count, limits)
    guess = max(1.0, probed.rate if probed.rate != float("inf") else 1.0)
    for number, deployment in enumerate(space):
        found = goodput(probed, deployment, limits, guess=guess, roofline=roofline)
        tried.append(Candidate(deployment, found))
        guess = found.rate or guess
        if progress is not None:
            leader = max(tried, key=lambda each: each.found.rate)
            progress(number + 1, len(space), f"best {leader.deployment}: {leader.found.rate:.3g} req/s")
    ranked = sorted(tried, key=lambda each: -each.found.rate)
    if ranked[0].found.rate == 0.0:
        raise SpecError("slo", str(limits), _hopeless(tried, spec, name))
    return Plan(ranked, spec, {device.name: count}, limits, probed)


def _one_device(budget: str) -> tuple[int, str]:
    devices = parse_budget(budget)
    if len(devices) != 1:
        raise SpecError("gpus", budget, "accepted in this version: devices of one kind, such as 8xH100")
    (name, count), *_ = devices.items()
    return count, name


def _hopeless(tried: list[Candidate], model: Model, device: str) -> str:
    nearest = max(tried, key=lambda each: each.found.attainment)
    stopped = f"{nearest.found.limit} stops {nearest.deployment}"
    return f"no deployment of {model.name} on {device} keeps it at any rate; {stopped}"
