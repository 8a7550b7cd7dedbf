"""What a plan is after."""

from dataclasses import dataclass
from typing import Literal

from twofold.errors import SpecError
from twofold.plan.resources import price_of, watts_of
from twofold.spec.deployment import Deployment

RATES = ("goodput", "goodput-per-gpu", "goodput-per-dollar", "goodput-per-watt")
"""Objectives that want the highest rate, as it is or for what it takes."""
TARGETS = ("cost", "power", "pareto")
"""Objectives that want the least for a target rate."""

Name = Literal["goodput", "goodput-per-gpu", "goodput-per-dollar", "goodput-per-watt", "cost", "power", "pareto"]


@dataclass(frozen=True)
class Objective:
    """``name`` is one of :data:`RATES`, or of :data:`TARGETS` with a ``target`` in requests/s."""

    name: str = "goodput"
    target: float | None = None

    def __post_init__(self) -> None:
        if self.name not in (*RATES, *TARGETS):
            raise SpecError("objective", self.name, f"accepted: {', '.join((*RATES, *TARGETS))}")
        if (self.name in TARGETS) != (self.target is not None):
            needs = f"{self.name} needs a rate to serve"
            accepted = needs if self.target is None else f"it goes with the objectives {', '.join(TARGETS)}"
            raise SpecError("target-rate", self.target, accepted)
        if self.target is not None and not 0 < self.target < float("inf"):
            raise SpecError("target-rate", self.target, "accepted: requests a second, above 0")

    def weight(self, deployment: Deployment) -> float:
        """What the rate of a deployment is divided by."""
        if self.name == "goodput-per-gpu":
            return float(deployment.devices_total)
        if self.name == "goodput-per-dollar":
            return _positive(price_of(deployment), "price_per_hour", deployment)
        return watts_of(deployment) if self.name == "goodput-per-watt" else 1.0

    def spent(self, deployment: Deployment) -> float:
        """What a deployment takes, in the unit that a target objective makes least: USD an hour, or watts."""
        return watts_of(deployment) if self.name == "power" else price_of(deployment)


def _positive(value: float, field: str, deployment: Deployment) -> float:
    if value <= 0:
        raise SpecError(field, value, f"a price above 0 is needed to weigh {deployment}")
    return value
