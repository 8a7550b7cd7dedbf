"""How one replica of each phase can look: its devices, its parallelism, its policy."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from twofold.errors import SpecError
from twofold.plan.resources import Kind, Resources
from twofold.scheduler.split import stream_groups
from twofold.simulate.capacity import kv_tokens
from twofold.spec.device import Device
from twofold.spec.group import Group
from twofold.spec.model import Model
from twofold.spec.slo import Slo

BUDGETS = (128, 256, 512, 1024, 2048)
"""Token budgets of a chunked step (Sarathi-Serve, section 4.3, uses 512 for strict and 2048 for relaxed SLOs)."""
PREFILL_BUDGETS = (512, 2048)
STAGES = (1, 2, 3, 4, 6, 8)
CAPPED = 0.7
"""Share of its TDP that a power-capped decode device may draw (Splitwise, section 6: HHcap)."""
FIXED_SPLITS = (2 / 3, 1 / 2)
"""Shares of the units that a fixed split gives to prefill."""

Options = dict[str, Any]


@dataclass(frozen=True)
class Shape:
    """One replica: ``tp * pp`` devices of a kind."""

    kind: Kind
    tp: int
    pp: int

    @property
    def device(self) -> Device:
        """What it is made of."""
        return self.kind.device

    @property
    def devices(self) -> int:
        """Devices of one replica."""
        return self.tp * self.pp

    def group(self, count: int, role: str = "both", **options: Any) -> Group:
        """``count`` such replicas."""
        fields: Options = {"count": count, "role": role, "tp": self.tp, "pp": self.pp, "device": self.device}
        return Group(**(fields | options))


def shapes_of(model: Model, resources: Resources) -> list[Shape]:
    """All replicas that hold the model and can be had; SpecError when there is none."""
    found = [shape for kind in resources.kinds for shape in _shapes(model, kind, resources.most(kind))]
    if not found:
        raise SpecError("gpus", str(resources), "; ".join(_what_fits(model, kind.device) for kind in resources.kinds))
    return found


def _shapes(model: Model, kind: Kind, most: int) -> Iterator[Shape]:
    tp = 1
    while tp <= min(most, kind.device.devices_per_node):
        for pp in STAGES:
            if tp * pp <= most and _whole(model, tp, pp) and fits(model, kind.device, tp, pp):
                yield Shape(kind, tp, pp)
        tp *= 2


def _whole(model: Model, tp: int, pp: int) -> bool:
    """Whether the heads and the layers can be cut so."""
    return model.heads % tp == 0 and model.layers % pp == 0


def fits(model: Model, device: Device, tp: int, pp: int) -> bool:
    """Whether the weights and at least one block of KV fit on ``tp * pp`` devices."""
    try:
        kv_tokens(model, device, Group(tp=tp, pp=pp))
    except SpecError:
        return False
    return True


def _what_fits(model: Model, device: Device) -> str:
    most = device.devices_per_node * max(STAGES)
    needed = min((shape.devices for shape in _shapes(model, Kind(device, most), most)), default=None)
    if needed is None:
        return f"{model.name} does not fit on any number of {device.name} that is tried"
    return f"{model.name} needs at least {needed}x{device.name}"


def colocated(shape: Shape, slo: Slo) -> Iterator[Options]:
    """Policies of a replica that does both, with their budgets and splits."""
    yield {"policy": "prefill-first"}
    yield {"policy": "mixed"}
    for budget in BUDGETS:
        yield {"policy": "chunked", "budget_tokens": budget}
    limit = slo.tbt_s or slo.tpot_s
    if limit is not None:
        yield {"policy": "chunked", "budget_s": limit}
    if shape.pp == 1 and can_multiplex(shape.device):
        yield {"policy": "multiplexed"}
        if limit is not None:
            yield {"policy": "multiplexed", "split": "slo"}
        for split in sorted({_fixed_split(shape.device, share) for share in FIXED_SPLITS}):
            yield {"policy": "multiplexed", "split": split}


def prefill_side() -> Iterator[Options]:
    """Policies of a replica that only prefills: whole prompts, or chunks."""
    yield {}
    for budget in PREFILL_BUDGETS:
        yield {"policy": "chunked", "budget_tokens": budget}


def decode_side(shape: Shape, capped: bool) -> Iterator[Options]:
    """A replica that only decodes, and one under a power cap where power counts."""
    yield {}
    cap = float(round(CAPPED * shape.device.tdp_w))
    if capped and cap > shape.device.idle_w:
        yield {"power_cap_w": cap}


def can_multiplex(device: Device) -> bool:
    """Whether the rules of PD multiplexing know how to divide the device."""
    try:
        stream_groups(device.units, device.compute_capability)
    except SpecError:
        return False
    return True


def divisions(device: Device, options: Options) -> list[list[int]]:
    """The divisions of the units, prefill and decode, that a replica with these options may choose; none undivided."""
    if options.get("policy") != "multiplexed":
        return []
    prefill, fixed, decode = str(options.get("split", "")).partition(":")
    if fixed:
        return [[int(prefill), int(decode)]]
    found: list[list[int]] = stream_groups(device.units, device.compute_capability).divisions[1:-1].tolist()
    return found


def _fixed_split(device: Device, share: float) -> str:
    """The stream group whose prefill lane is nearest to ``share`` of the units, as ``P:D``."""
    divisions = stream_groups(device.units, device.compute_capability).divisions[1:-1]
    prefill, decode = min(divisions.tolist(), key=lambda division: abs(division[0] / device.units - share))
    return f"{prefill}:{decode}"
