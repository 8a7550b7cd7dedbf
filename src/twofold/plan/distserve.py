"""DistServe's placement algorithms (Zhong et al., OSDI 2024, section 4): which parallelism, and how many of each.

Both enumerate what fits, find the goodput of each by bisection on the simulator, keep the best per device and
replicate it. They differ in where KV may travel.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from twofold.cost.contract import CostModel
from twofold.errors import SpecError
from twofold.plan.goodput import goodput
from twofold.plan.phases import (
    decode_alone,
    first_tokens,
    phase_slos,
    prefill_alone,
    saturating_tokens,
    steady_decode_rate,
)
from twofold.plan.placement import Instance, Placement
from twofold.plan.shapes import fits
from twofold.spec import catalog
from twofold.spec.deployment import Deployment
from twofold.spec.device import Device
from twofold.spec.group import Group
from twofold.spec.model import Model
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload

Shape = tuple[int, int]
Options = Mapping[str, Any]


def shapes(model: Model, device: Device, nodes: int = 1) -> list[Shape]:
    """Every (tp, pp) of an instance on up to ``nodes`` machines: tp inside one, and only what fits.

    tp divides the attention heads and pp the layers, so that all shards are equal.
    """
    tps = [tp for tp in range(1, device.devices_per_node + 1) if model.heads % tp == 0]
    most = nodes * device.devices_per_node
    pps = [pp for pp in range(1, most + 1) if model.layers % pp == 0]
    return [(tp, pp) for tp in tps for pp in pps if tp * pp <= most and fits(model, device, tp, pp)]


def algorithm_1(
    workload: Workload,
    model: str | Model,
    device: str | Device,
    slo: Slo | str,
    rate: float | None = None,
    *,
    nodes: int = 1,
    among: Iterable[Shape] | None = None,
    options: Options | None = None,
    roofline: CostModel | None = None,
) -> Placement:
    """Placement where the network between machines is fast (high node affinity, section 4.1).

    Each phase is simulated alone, at the attainment of ``slo``, and gets the (tp, pp) with the highest goodput per
    device, of ``among`` (default: all :func:`shapes`); then whole replicas of either for ``rate`` (default: the
    workload's). ``options`` are further fields of all replicas. Raises SpecError where nothing fits and where a
    phase keeps its limits at no rate.
    """
    spec, machine, limits = catalog.model(model), catalog.device(device), Slo.parse(slo)
    prefill_slo, decode_slo = phase_slos(limits)
    tried = list(shapes(spec, machine, nodes) if among is None else among)
    prompts = first_tokens(workload)
    prefills: list[Instance] = []
    decodes: list[Instance] = []
    for shape in tried:
        prefill = _group("prefill", shape, spec, machine, options, roofline)
        alone = prefill_alone(workload, spec, machine, prefill)
        found = goodput(prompts, alone, prefill_slo, guess=_guess(prefills, prefill), roofline=roofline)
        prefills.append(Instance((prefill,), found, float("inf")))
        decode = _group("decode", shape, spec, machine, options, roofline)
        alone = decode_alone(workload, spec, machine, decode)
        found = goodput(workload, alone, decode_slo, guess=_guess(decodes, decode), roofline=roofline)
        decodes.append(Instance((decode,), found, steady_decode_rate(workload, spec, machine, decode, roofline)))
    tables = (_ranked(prefills, spec, machine, prefill_slo), _ranked(decodes, spec, machine, decode_slo))
    return Placement(spec, machine, workload.rate if rate is None else rate, tables)


def algorithm_2(
    workload: Workload,
    model: str | Model,
    device: str | Device,
    slo: Slo | str,
    rate: float | None = None,
    *,
    nodes: int = 1,
    options: Options | None = None,
    roofline: CostModel | None = None,
) -> Placement:
    """Placement where the network between machines is slow (low node affinity, section 4.2).

    KV only moves between the same layers of prefill and decode. So both have equal pipelines, and stage by stage one
    machine holds the prefill and the decode part of the same layers: ``tp`` of both together is at most a machine,
    and a unit spans as many machines as its stages need, up to ``nodes``. Units are simulated with the link
    inside a machine (for the activations between stages as well), under the whole ``slo``, and replicated whole for
    ``rate``.
    """
    spec, machine, limits = catalog.model(model), catalog.device(device), Slo.parse(slo)
    link = catalog.link(machine.intra_link)
    units: list[Instance] = []
    for pp, prefill_tp, decode_tp in _segments(spec, machine, nodes):
        prefill = _group("prefill", (prefill_tp, pp), spec, machine, options, roofline)
        decode = _group("decode", (decode_tp, pp), spec, machine, options, roofline)
        unit = Deployment(model=spec, device=machine, groups=(prefill, decode), link=link)
        found = goodput(workload, unit, limits, guess=_guess(units, prefill, decode), roofline=roofline)
        steady = steady_decode_rate(workload, spec, machine, decode, roofline)
        units.append(Instance((prefill, decode), found, steady))
    tables = (_ranked(units, spec, machine, limits),)
    return Placement(spec, machine, workload.rate if rate is None else rate, tables, link)


def _segments(model: Model, device: Device, nodes: int) -> Iterator[tuple[int, int, int]]:
    """(pp, prefill tp, decode tp): the stages of a unit, several on a machine where they have room."""
    possible = shapes(model, device, nodes)
    for prefill_tp, pp in possible:
        for decode_tp, other in possible:
            together = prefill_tp + decode_tp
            a_machine = device.devices_per_node // together
            if other == pp and together <= device.devices_per_node and pp <= nodes * a_machine:
                yield pp, prefill_tp, decode_tp


def _group(
    role: Literal["prefill", "decode"],
    shape: Shape,
    model: Model,
    device: Device,
    options: Options | None,
    roofline: CostModel | None,
) -> Group:
    tp, pp = shape
    fields: dict[str, Any] = {"role": role, "tp": tp, "pp": pp, **(options or {})}
    if role == "prefill":
        fields["prefill_batch_tokens"] = saturating_tokens(model, device, tp=tp, pp=pp, roofline=roofline)
    return Group(**fields)


def _guess(tried: list[Instance], *groups: Group) -> float:
    """Where to start: what the last instance that worked found per device."""
    found = next((each.per_device for each in reversed(tried) if each.goodput), 1.0)
    return found * sum(group.devices for group in groups)


def _ranked(tried: list[Instance], model: Model, device: Device, slo: Slo) -> list[Instance]:
    if not tried:
        raise SpecError("device", device.name, f"{model.name} does not fit on what a placement may use of it")
    ranked = sorted(tried, key=lambda each: (-each.per_device, each.devices))
    if ranked[0].goodput == 0.0:
        nearest = max(tried, key=lambda each: each.found.attainment)
        accepted = f"no instance of {model.name} on {device.name} keeps it at any rate; {nearest.found.limit} stops it"
        raise SpecError("slo", str(slo), accepted)
    return ranked
