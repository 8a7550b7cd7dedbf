"""A deployment: groups of equal replicas, the links between them, the router and the faults."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

from pydantic import Field, model_validator

from twofold.errors import SpecError
from twofold.spec.checked import BytesPerSecond, Checked, Name, Positive, Seconds
from twofold.spec.device import Device
from twofold.spec.group import Group, Role
from twofold.spec.link import Link
from twofold.spec.model import Model

__all__ = ["Deployment", "Fault", "Group", "Role", "Router"]

Router = Literal["round-robin", "random", "least-requests", "least-tokens", "power-of-two", "kv-aware"]
NotNegative = Annotated[float, Field(ge=0)]


class Fault(Checked):
    """A replica or a link that dies: once (``at_s``, for ``for_s`` seconds) or at a ``rate_per_hour``.

    ``target`` is the index of the replica over all groups in order, or of the link; None only with a rate:
    each of them by itself, at that rate, back after exponentially long repairs of mean ``mean_repair_s``.
    ``for_s`` None means for good. ``kv`` says whether a replica comes back with the KV it held.
    """

    kind: Literal["replica", "link"] = "replica"
    target: Annotated[int, Field(ge=0)] | None = None
    at_s: Annotated[Seconds, Field(ge=0)] | None = None
    for_s: Annotated[Seconds, Field(gt=0)] | None = None
    rate_per_hour: Annotated[float, Field(gt=0)] | None = None
    mean_repair_s: Annotated[Seconds, Field(gt=0)] | None = None
    kv: Literal["lost", "kept"] = "lost"

    @model_validator(mode="after")
    def _agree(self) -> Fault:
        if (self.at_s is None) == (self.rate_per_hour is None):
            raise SpecError("at_s", self.at_s, "a fault has either a time at_s or a rate_per_hour")
        if self.at_s is not None and self.target is None:
            raise SpecError("target", None, "a fault at a time says which replica or link dies")
        if self.at_s is not None and self.mean_repair_s is not None:
            raise SpecError("mean_repair_s", self.mean_repair_s, "a fault at a time lasts for_s")
        if self.rate_per_hour is not None and (self.for_s is not None or self.mean_repair_s is None):
            raise SpecError("mean_repair_s", self.mean_repair_s, "faults at a rate need mean_repair_s, and no for_s")
        return self


class Deployment(Checked):
    """Groups of replicas of one model, and how requests and KV travel between them.

    ``model`` and ``device`` (the default of groups that name none) are catalog names, paths or the records
    themselves. ``link`` None is the device's own link between machines; ``link_per`` says whether each device
    or each replica has one; ``fabric_bytes_per_s`` is a trunk that all transfers share (None: not a limit).
    ``layerwise`` transfers overlap with prefill. The router fields are those of the KV-aware cost.
    ``mixed_pool`` lets overloaded pools borrow replicas (Splitwise) beyond ``mixed_prompt_tokens`` queued.
    """

    model: Name | Model
    device: Name | Device | None = None
    groups: Annotated[tuple[Group, ...], Field(min_length=1)]
    router: Router = "round-robin"
    overlap_credit: NotNegative = 1.0
    prefill_load_scale: NotNegative = 1.0
    host_weight: NotNegative = 0.75
    disk_weight: NotNegative = 0.25
    temperature: NotNegative = 0.0
    decode_active_request_weight: NotNegative = 0.0
    decode_choice: Literal["at-prefill-end", "at-arrival"] = "at-prefill-end"
    transfer: Literal["pull", "push"] = "pull"
    layerwise: bool = False
    link: Name | Link | None = None
    link_per: Literal["device", "replica"] = "device"
    fabric_bytes_per_s: Annotated[BytesPerSecond, Field(gt=0)] | None = None
    mixed_pool: bool = False
    mixed_prompt_tokens: Positive = 8192
    faults: tuple[Fault, ...] = ()
    seed: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _agree(self) -> Deployment:
        roles = {group.role for group in self.groups}
        if ("prefill" in roles) != ("decode" in roles):
            raise SpecError("groups", sorted(roles), "prefill and decode replicas come together, as in 1P1D")
        if self.mixed_pool and "prefill" not in roles:
            raise SpecError("mixed_pool", True, "a mixed pool needs prefill and decode replicas")
        if self.device is None and any(group.device is None for group in self.groups):
            raise SpecError("device", None, "name a default device, or one in every group")
        replicas = sum(group.count for group in self.groups)
        for fault in self.faults:
            if fault.kind == "replica" and fault.target is not None and fault.target >= replicas:
                raise SpecError("faults.target", fault.target, f"replicas are numbered 0 to {replicas - 1}")
        return self

    @property
    def devices_total(self) -> int:
        """Devices of all groups."""
        return sum(group.devices for group in self.groups)

    def by_device(self) -> dict[str, int]:
        """Devices of each kind, by name as written (or the record's), in the order of the groups."""
        count: Counter[str] = Counter()
        for group in self.groups:
            device = group.device or self.device
            count[device.name if isinstance(device, Device) else str(device)] += group.devices
        return dict(count)

    def __str__(self) -> str:
        from twofold.spec.notation import format_deployment

        return format_deployment(self)
