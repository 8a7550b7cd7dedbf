"""The contract of a target: it is given an order and gives back files and how to start them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from twofold.errors import SpecError
from twofold.plan.document import Chosen
from twofold.spec import catalog
from twofold.spec.deployment import Deployment
from twofold.spec.device import Device
from twofold.spec.group import Group
from twofold.spec.model import Model

Flags = list[tuple[str, ...]]
"""Options of a command, each with its values."""


@dataclass(frozen=True)
class Order:
    """One deployment to export, and where its engine finds the weights: a hub id or a path."""

    chosen: Chosen
    model_path: str

    @property
    def deployment(self) -> Deployment:
        """The deployment."""
        return self.chosen.deployment

    @property
    def model(self) -> Model:
        """Its model."""
        return self.chosen.model

    @property
    def groups(self) -> tuple[Group, ...]:
        """Its groups of equal replicas."""
        return self.chosen.deployment.groups

    @property
    def disaggregated(self) -> bool:
        """Whether prefill and decode have replicas of their own."""
        return any(group.role == "prefill" for group in self.groups)

    @property
    def replicas(self) -> int:
        """Replicas of all groups."""
        return sum(group.count for group in self.groups)

    def device(self, group: Group) -> Device:
        """The device of a group; SpecError where neither it nor the deployment names one."""
        given = group.device if group.device is not None else self.deployment.device
        if given is None:
            raise SpecError("device", None, "name a default device, or one in every group")
        return catalog.device(given)

    @property
    def graph_tokens(self) -> int:
        """Up to so many tokens the steps of the plan were padded to captured CUDA graphs; 0: they were not."""
        return int(self.chosen.document.get("graph_tokens", 0))

    @property
    def doubted(self) -> bool:
        """Whether the plan did not prove the rank: it is beyond those kept, or the search was stopped."""
        return self.chosen.document["candidates"][self.chosen.rank - 1].get("proved") is False

    def prefix_cache(self, group: Group) -> bool:
        """Whether the group reuses prefixes: as it says, else as the workload of the plan carried hashes."""
        if group.prefix_cache is not None:
            return group.prefix_cache
        return "hash_tokens" in self.chosen.document.get("workload", {})


@dataclass(frozen=True)
class File:
    """A file to write, by its name in the folder that is given to export."""

    name: str
    text: str


@dataclass(frozen=True)
class Exported:
    """The files of an export, and one line a step of how to start them."""

    files: tuple[File, ...]
    start: tuple[str, ...]


@dataclass(frozen=True)
class Target:
    """A system to export to: the versions that its files are written for, and what writes them.

    ``write`` raises SpecError, in one line, for what the system cannot do.
    """

    name: str
    written_for: str
    write: Callable[[Order], Exported]


def header(order: Order, written_for: str, notes: Sequence[str]) -> str:
    """Comment lines (shell and YAML alike): what this is, for which versions, and where it differs from the plan."""
    chosen = order.chosen
    lines = [
        f"{order.deployment} of {order.model.name}, rank {chosen.rank} of its plan"
        f"{', which the plan did not prove' if order.doubted else ''}:",
        f"{chosen.goodput_req_s:.3g} requests/s within {chosen.slo}.",
        f"Written by twofold export for {written_for}.",
    ]
    if notes:
        lines += ["Not as it was simulated:", *(f"- {note}" for note in notes)]
    return "".join(f"# {' '.join(line.split())}\n" for line in lines)


def flat(flags: Flags) -> list[str]:
    """The words of a list of options, in order."""
    return [word for flag in flags for word in flag]
