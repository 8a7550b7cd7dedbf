"""The deployments that are worth trying on a number of equal devices."""

from collections.abc import Iterator
from typing import Any

from twofold.errors import SpecError
from twofold.scheduler.split import stream_groups
from twofold.simulate.capacity import kv_tokens
from twofold.spec.deployment import Deployment
from twofold.spec.device import Device
from twofold.spec.group import Group
from twofold.spec.model import Model
from twofold.spec.slo import Slo

BUDGETS = (128, 256, 512, 1024, 2048)
"""Token budgets of a chunked step (Sarathi-Serve, section 4.3, uses 512 for strict and 2048 for relaxed SLOs)."""
STAGES = (1, 2, 4)


def candidates(model: Model, device: Device, count: int, slo: Slo) -> list[Deployment]:
    """Deployments of ``model`` on ``count`` devices: policies x budgets x splits x (tp, pp), and xPyD.

    Colocated replicas use as many devices as divide evenly. Disaggregated ones use all shapes of either side that
    leave no room for one more replica. Raises SpecError when not even one replica fits.
    """
    shapes = [shape for shape in _shapes(model, device, count) if fits(model, device, *shape)]
    if not shapes:
        raise SpecError("gpus", f"{count}x{device.name}", _what_fits(model, device))
    groups: list[tuple[Group, ...]] = []
    for tp, pp in shapes:
        shared = {"count": count // (tp * pp), "tp": tp, "pp": pp}
        groups += [(Group(**(shared | options)),) for options in _colocated(device, pp, slo)]
    groups += _disaggregated(shapes, count)
    return [Deployment(model=model, device=device, groups=each, router="least-tokens") for each in groups]


def fits(model: Model, device: Device, tp: int, pp: int) -> bool:
    """Whether the weights and at least one block of KV fit on ``tp * pp`` devices."""
    try:
        kv_tokens(model, device, Group(tp=tp, pp=pp))
    except SpecError:
        return False
    return True


def _what_fits(model: Model, device: Device) -> str:
    needed = next((n for n in (1, 2, 4, 8, 16, 32, 64, 128) if any(fits(model, device, *s) for s in _exactly(n))), None)
    if needed is None:
        return f"{model.name} does not fit on any number of {device.name} that is tried"
    return f"{model.name} needs at least {needed}x{device.name}"


def _exactly(devices: int) -> list[tuple[int, int]]:
    return [(devices // pp, pp) for pp in STAGES if devices % pp == 0]


def _shapes(model: Model, device: Device, count: int) -> Iterator[tuple[int, int]]:
    tp = 1
    while tp <= min(count, device.devices_per_node):
        for pp in STAGES:
            if tp * pp <= count and pp <= model.layers and model.heads % tp == 0:
                yield tp, pp
        tp *= 2


def _colocated(device: Device, pp: int, slo: Slo) -> Iterator[dict[str, Any]]:
    yield {"policy": "prefill-first"}
    yield {"policy": "mixed"}
    for budget in BUDGETS:
        yield {"policy": "chunked", "budget_tokens": budget}
    limit = slo.tbt_s or slo.tpot_s
    if limit is not None:
        yield {"policy": "chunked", "budget_s": limit}
    if pp == 1 and can_multiplex(device):
        yield {"policy": "multiplexed"}
        if limit is not None:
            yield {"policy": "multiplexed", "split": "slo"}


def can_multiplex(device: Device) -> bool:
    """Whether the rules of PD multiplexing know how to divide the device."""
    try:
        stream_groups(device.units, device.compute_capability)
    except SpecError:
        return False
    return True


def _disaggregated(shapes: list[tuple[int, int]], count: int) -> Iterator[tuple[Group, ...]]:
    for prefill_tp, prefill_pp in shapes:
        for decode_tp, decode_pp in shapes:
            prefill, decode = prefill_tp * prefill_pp, decode_tp * decode_pp
            for x in range(1, (count - decode) // prefill + 1):
                y = (count - x * prefill) // decode
                if count - x * prefill - y * decode < min(prefill, decode):
                    yield (
                        Group(role="prefill", count=x, tp=prefill_tp, pp=prefill_pp),
                        Group(role="decode", count=y, tp=decode_tp, pp=decode_pp),
                    )
