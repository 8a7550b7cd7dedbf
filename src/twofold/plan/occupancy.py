"""How busy and how full each group of a deployment was in a run."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from twofold.simulate.build import Member, members_of
from twofold.simulate.result import Result
from twofold.spec import catalog
from twofold.spec.deployment import Deployment
from twofold.spec.notation import format_group


@dataclass(frozen=True)
class Occupancy:
    """One group, shares of one.

    ``busy``: of the time a step runs, on average over its replicas; ``kv_mean`` and ``kv_peak``: KV memory in use, on
    average and at most on any replica; ``link``: of the bandwidth of the fullest port, or of the trunk, in use.
    """

    group: str
    role: str
    replicas: int
    devices: int
    busy: float
    kv_mean: float
    kv_peak: float
    link: float

    def to_dict(self) -> dict[str, Any]:
        """The group as JSON."""
        return asdict(self)


def occupancies(result: Result) -> tuple[Occupancy, ...]:
    """The groups of the run's deployment, in its order.

    Prefill replicas are counted until the last prompt is done, not while the last requests finish decoding, unless a
    preemption, a fault or a mixed pool may have brought them more work; links until the last KV has arrived.
    """
    members, frame = members_of(result.deployment), result.replicas
    columns = {name: frame[name].to_numpy() for name in ("utilisation", "kv_mean", "kv_peak")}
    sent = np.maximum(frame["link_out_bytes"].to_numpy(), frame["link_in_bytes"].to_numpy())
    capacity = np.array([port_bytes_per_s(result.deployment, member) for member in members])
    moving, trunk = _until(result, result.kv_arrived_s), result.deployment.fabric_bytes_per_s or np.inf
    shared = float(frame["link_out_bytes"].sum()) / (trunk * moving)
    prompts = result.duration_s / _prompts_until(result)
    found = []
    for number, group in enumerate(result.deployment.groups):
        rows = np.array([member.number == number for member in members])
        stretch = prompts if group.role == "prefill" else 1.0
        found.append(
            Occupancy(
                group=format_group(group),
                role=group.role,
                replicas=group.count,
                devices=group.devices,
                busy=min(1.0, float(columns["utilisation"][rows].mean()) * stretch),
                kv_mean=float(columns["kv_mean"][rows].mean()),
                kv_peak=float(columns["kv_peak"][rows].max()),
                link=max(float((sent / (capacity * moving))[rows].max()), shared),
            )
        )
    return tuple(found)


def port_bytes_per_s(deployment: Deployment, member: Member) -> float:
    """Bytes a second that KV crosses the port of a replica with in one direction."""
    link = catalog.link(deployment.link or member.device.inter_link)
    ports = member.group.tp * member.group.pp if deployment.link_per == "device" else 1
    return link.effective * ports


def _prompts_until(result: Result) -> float:
    again = result.deployment.mixed_pool or result.deployment.faults
    preempted = int(result.replicas["preemptions"].sum())
    return result.duration_s if again or preempted else _until(result, result.ttft_s)


def _until(result: Result, after_arrival_s: np.ndarray) -> float:
    """Seconds from the first arrival to the last of these instants; to the end of the run where there are none."""
    instants = (result.arrival_s + after_arrival_s)[~np.isnan(after_arrival_s)]
    return float(instants.max() - result.arrival_s[0]) if len(instants) else result.duration_s
