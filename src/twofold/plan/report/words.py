"""How numbers and deployments are written for a reader of the report."""

import math

from twofold.spec.deployment import Deployment
from twofold.spec.device import Device
from twofold.spec.group import Group
from twofold.spec.quantity import format_duration

ABSENT = "–"
METRICS = {"ttft": "TTFT", "tbt": "TBT", "tpot": "TPOT", "e2e": "end to end"}


def number(value: float | None, digits: int = 3) -> str:
    """A number with thousands separators and at least ``digits`` significant digits; a dash for none."""
    if value is None or not math.isfinite(value):
        return ABSENT
    if value == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}"


def milliseconds(seconds: float | None) -> str:
    """Seconds as milliseconds with three significant digits, without the unit; a dash for none."""
    return number(None if seconds is None else seconds * 1e3)


def percent(share: float | None) -> str:
    """A share of one as a percentage with one decimal."""
    return ABSENT if share is None or not math.isfinite(share) else f"{share:.1%}"


def count(amount: int, noun: str) -> str:
    """An amount with its noun, ``1 replica`` or ``3 replicas``."""
    return f"{amount:,} {noun}" if amount == 1 else f"{amount:,} {noun}s"


def described(deployment: Deployment) -> str:
    """A deployment as a sentence without its full stop."""
    return "; ".join(_group(group, group.device or deployment.device) for group in deployment.groups)


def _group(group: Group, device: str | Device | None) -> str:
    role = "" if group.role == "both" else f"{group.role} "
    name = device.name if isinstance(device, Device) else str(device)
    each = " each" if group.count > 1 else ""
    shape = [
        f"{way} {size}" for way, size in (("tensor parallel", group.tp), ("pipeline stages", group.pp)) if size > 1
    ]
    text = f"{count(group.count, role + 'replica')} on {group.tp * group.pp} {name}{each}"
    return ", ".join([text, *shape, *([_policy(group)] if group.role == "both" else [])])


def _policy(group: Group) -> str:
    if group.policy == "chunked":
        within = f"{group.budget_tokens:,} tokens" if group.budget_tokens else format_duration(group.budget_s or 0.0)
        return f"chunked steps of at most {within}"
    if group.policy == "multiplexed":
        return f"multiplexed lanes, split {group.split}"
    return f"{group.policy} steps"
