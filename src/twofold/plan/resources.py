"""What a plan may spend: devices by kind, dollars an hour, watts."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from twofold.errors import SpecError
from twofold.spec import catalog
from twofold.spec.deployment import Deployment
from twofold.spec.device import Device
from twofold.spec.group import Group
from twofold.spec.notation import parse_budget
from twofold.spec.quantity import parse_watts

ACCEPTED = "write COUNTxDEVICE as in 8xH100 + 16xA100, or kinds alone as in H100 + A100 together with a budget"


MOST_DEVICES = 128
FOR_MORE = "for more, plan a part of them and replicate it, or name the kind alone with a target rate"
UNBOUNDED = 1 << 16
"""Devices of a kind that nothing limits."""


@dataclass(frozen=True)
class Kind:
    """Devices of one kind: how many there are at most; None: as many as the budget buys."""

    device: Device
    most: int | None


@dataclass(frozen=True)
class Resources:
    """Kinds of devices in the order given, and a budget in USD an hour or in watts (None: not a limit)."""

    kinds: tuple[Kind, ...]
    usd_per_hour: float | None = None
    watts: float | None = None

    @property
    def bounded(self) -> bool:
        """Whether there is an end to what can be bought."""
        if self.watts is not None or all(kind.most is not None for kind in self.kinds):
            return True
        return self.usd_per_hour is not None and all(kind.device.price_per_hour > 0 for kind in self.kinds)

    def most(self, kind: Kind) -> int:
        """Devices of ``kind`` that can be had when nothing else is bought."""
        limits = [
            *([] if kind.most is None else [kind.most]),
            *([] if self.usd_per_hour is None else [_buys(self.usd_per_hour, kind.device.price_per_hour)]),
            *([] if self.watts is None else [_buys(self.watts, kind.device.tdp_w)]),
        ]
        return int(min(limits, default=math.inf)) if self.bounded else UNBOUNDED

    def allow(self, deployment: Deployment) -> bool:
        """Whether the deployment stays within every limit."""
        used = deployment.by_device()
        counted = all(kind.most is None or used.get(kind.device.name, 0) <= kind.most for kind in self.kinds)
        affordable = self.usd_per_hour is None or price_of(deployment) <= self.usd_per_hour * (1 + 1e-9)
        return counted and affordable and (self.watts is None or watts_of(deployment) <= self.watts * (1 + 1e-9))

    def limited(self, count: int) -> "Resources":
        """The same with at most ``count`` devices of each kind."""
        kinds = (Kind(kind.device, count if kind.most is None else min(count, kind.most)) for kind in self.kinds)
        return Resources(tuple(kinds), self.usd_per_hour, self.watts)

    def counts(self) -> dict[str, int | None]:
        """Devices by name, None where only the budget limits them."""
        return {kind.device.name: kind.most for kind in self.kinds}

    def __str__(self) -> str:
        parts = [kind.device.name if kind.most is None else f"{kind.most}x{kind.device.name}" for kind in self.kinds]
        text = " + ".join(parts)
        if self.usd_per_hour is not None:
            text += f" within {self.usd_per_hour:g} $/h"
        return text if self.watts is None else f"{text} within {self.watts / 1e3:g} kW"


def _buys(budget: float, each: float) -> float:
    return math.floor(budget / each * (1 + 1e-9)) if each > 0 else math.inf


def parse_resources(gpus: str | Mapping[str, int | None], budget: str | None = None) -> Resources:
    """Read ``"8xH100 + 16xA100"`` or ``"H100 + A100"``, and a budget such as ``"150$/h"`` or ``"40kW"``."""
    written = list(gpus.items()) if isinstance(gpus, Mapping) else list(_counts(gpus))
    kinds: dict[str, Kind] = {}
    for name, most in written:
        device = catalog.device(name)
        if most is not None and most > MOST_DEVICES:
            raise SpecError("gpus", f"{most}x{name}", f"accepted: up to {MOST_DEVICES} devices of a kind; {FOR_MORE}")
        other = kinds.get(device.name)
        if other is not None and (other.most is None or most is None):
            raise SpecError("gpus", name, f"{device.name} is there twice; {ACCEPTED}")
        kinds[device.name] = Kind(device, most if other is None else (most or 0) + (other.most or 0))
    usd, watts = (None, None) if budget is None else read_amount(budget)
    return Resources(tuple(kinds.values()), usd, watts)


def _counts(text: str) -> Iterator[tuple[str, int | None]]:
    for part in (part.strip() for part in text.split("+")):
        if re.match(r"\d+\s*[x×*]", part):
            yield from parse_budget(part).items()
        elif re.fullmatch(r"[A-Za-z][\w.\- ]*", part):
            yield part, None
        else:
            raise SpecError("gpus", part or text, ACCEPTED)


def read_amount(text: str, field: str = "within") -> tuple[float | None, float | None]:
    """USD an hour of ``"150$/h"``, or watts of ``"40kW"``; the other is None."""
    money = re.fullmatch(r"\$?\s*(\d+(?:\.\d+)?)\s*(?:\$|usd)?\s*/\s*h(?:our)?", text.strip(), re.IGNORECASE)
    if money:
        return _above_zero(float(money[1]), text, field), None
    if re.fullmatch(r"[\d.]+\s*[kM]?W", text.strip()):
        return None, _above_zero(parse_watts(text, field), text, field)
    raise SpecError(field, text, "dollars an hour as in 150$/h, or power as in 40kW")


def _above_zero(value: float, text: str, field: str) -> float:
    if not 0 < value < math.inf:
        raise SpecError(field, text, "an amount above 0")
    return value


def price_of(deployment: Deployment) -> float:
    """USD an hour of all devices."""
    return sum(group.devices * _device(group, deployment).price_per_hour for group in deployment.groups)


def watts_of(deployment: Deployment) -> float:
    """Watts that must be provisioned: the power cap of each device, else its TDP."""
    return sum(group.devices * (group.power_cap_w or _device(group, deployment).tdp_w) for group in deployment.groups)


def _device(group: Group, deployment: Deployment) -> Device:
    return catalog.device(group.device or deployment.device or "")
