"""What DistServe's algorithms found: everything enumerated, the best of it, and the whole replicas for a rate."""

from dataclasses import dataclass
from typing import Any

from twofold.plan.goodput import Goodput
from twofold.plan.queueing import whole_replicas
from twofold.spec.deployment import Deployment
from twofold.spec.device import Device
from twofold.spec.group import Group
from twofold.spec.link import Link
from twofold.spec.model import Model


@dataclass(frozen=True)
class Instance:
    """One enumerated replica of one phase, or (``groups`` of two) one unit of both.

    ``found`` is what the simulated requests sustain; ``steady`` requests/s bound what any number of them could.
    """

    groups: tuple[Group, ...]
    found: Goodput
    steady: float

    @property
    def devices(self) -> int:
        """Devices of the instance."""
        return sum(group.devices for group in self.groups)

    @property
    def goodput(self) -> float:
        """Requests/s: what was found, or less where a finite run flattered it."""
        return min(self.found.rate, self.steady)

    @property
    def per_device(self) -> float:
        """Goodput per device, requests/s: what the algorithms maximise."""
        return self.goodput / self.devices

    def row(self) -> dict[str, Any]:
        """As the table of everything enumerated shows it."""
        return {
            "instance": [f"{group.role} tp{group.tp} pp{group.pp}" for group in self.groups],
            "devices": self.devices,
            "goodput_req_s": self.goodput,
            "goodput_per_device_req_s": self.per_device,
            "simulated_req_s": self.found.rate,
            "steady_req_s": self.steady,
            "attainment": self.found.attainment,
            "limit": self.found.limit if self.goodput == self.found.rate else "steady state",
            "prefill_batch_tokens": self.groups[0].prefill_batch_tokens,
        }


@dataclass(frozen=True)
class Placement:
    """Tables of everything enumerated, best first: one a phase (algorithm 1), or one of units (algorithm 2).

    ``rate`` is the target in requests/s; ``link`` carries the KV (None: the device's own between machines).
    """

    model: Model
    device: Device
    rate: float
    tables: tuple[list[Instance], ...]
    link: Link | None = None

    @property
    def best(self) -> tuple[Instance, ...]:
        """The instance of each table that has the highest goodput per device."""
        return tuple(table[0] for table in self.tables)

    def counts(self, rate: float | None = None) -> tuple[int, ...]:
        """Whole instances of each of ``best`` that ``rate`` (default: the target) needs, at least one of each."""
        wanted = self.rate if rate is None else rate
        return tuple(max(1, whole_replicas(wanted, instance.goodput)) for instance in self.best)

    def devices(self, rate: float | None = None) -> int:
        """Devices of those instances."""
        return sum(n * instance.devices for n, instance in zip(self.counts(rate), self.best, strict=True))

    def deployment(self, rate: float | None = None) -> Deployment:
        """Those instances as a deployment.

        Of algorithm 2, any prefill replica may send to any decode replica over the link inside a machine; that a
        unit keeps to itself cannot be written down in a deployment.
        """
        groups = tuple(
            group.replaced(count=n)
            for n, instance in zip(self.counts(rate), self.best, strict=True)
            for group in instance.groups
        )
        return Deployment(model=self.model, device=self.device, groups=groups, router="least-tokens", link=self.link)

    def to_dict(self) -> dict[str, Any]:
        """The placement and its tables as JSON; seconds, requests/s."""
        return {
            "model": self.model.name,
            "device": self.device.name,
            "rate_req_s": self.rate,
            "deployment": str(self.deployment()),
            "devices": self.devices(),
            "best": [instance.row() for instance in self.best],
            "tables": [[instance.row() for instance in table] for table in self.tables],
        }
