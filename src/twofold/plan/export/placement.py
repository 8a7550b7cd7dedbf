"""Which devices of which machine each replica gets, for targets without a cluster that decides it."""

from dataclasses import dataclass, field

from twofold.plan.export.base import Order
from twofold.spec.device import Device
from twofold.spec.group import Group

SERVER_PORT, SIDE_PORT, BOOTSTRAP_PORT, ROUTER_PORT = 8100, 5600, 8998, 8000


@dataclass(frozen=True)
class Replica:
    """A replica of the group at ``place``, on ``devices`` (indices) of a machine (counted from 1)."""

    place: int
    group: Group
    machine: int
    devices: tuple[int, ...]

    @property
    def port(self) -> int:
        """Of its HTTP server."""
        return SERVER_PORT + self.devices[0]

    @property
    def url(self) -> str:
        """Of its HTTP server, with the machine as a shell variable."""
        return f"http://$HOST_{self.machine}:{self.port}"


@dataclass
class Machine:
    """A machine of equal devices, and the replicas on it."""

    number: int
    device: Device
    replicas: list[Replica] = field(default_factory=list)

    @property
    def used(self) -> int:
        """Devices that have a replica."""
        return sum(len(replica.devices) for replica in self.replicas)


def place(order: Order) -> list[Machine]:
    """Each replica on the first machine of its device with room; machines are added as they are needed."""
    machines: list[Machine] = []
    for place, group in enumerate(order.groups):
        device, size = order.device(group), group.tp * group.pp
        for _ in range(group.count):
            machine = _with_room(machines, device, size)
            devices = tuple(range(machine.used, machine.used + size))
            machine.replicas.append(Replica(place, group, machine.number, devices))
    return machines


def _with_room(machines: list[Machine], device: Device, size: int) -> Machine:
    for machine in machines:
        if machine.device == device and machine.used + size <= device.devices_per_node:
            return machine
    machines.append(Machine(len(machines) + 1, device))
    return machines[-1]
