"""Shell scripts: quoted commands, one that starts the replicas of a machine, one that starts the router."""

import re
import shlex
from collections.abc import Callable, Sequence

from twofold.plan.export.base import Exported, File, Flags, Order
from twofold.plan.export.placement import Machine, Replica, place

ALONE = "127.0.0.1"
STOP = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"


class Expanded(str):
    """A word that the shell expands, such as ``$HOST_1``; every other word is quoted."""

    __slots__ = ()


Start = Callable[[Replica], tuple[dict[str, str], list[str], Flags]]
"""Environment, program and options of one replica."""


def quoted(word: str) -> str:
    """A word of a command, safe for the shell."""
    return f'"{word}"' if isinstance(word, Expanded) else shlex.quote(word)


def command(environment: dict[str, str], program: Sequence[str], flags: Flags) -> str:
    """One command, an option a line."""
    settings = [f"{name}={quoted(value)}" for name, value in environment.items()]
    first = " ".join([*settings, *map(quoted, program)])
    return " \\\n  ".join([first, *(" ".join(map(quoted, flag)) for flag in flags)])


def scripts(order: Order, head: str, start: Start, router: tuple[list[str], Flags] | None) -> Exported:
    """A script for each machine, and ``router.sh`` where there is a router; then how to start them."""
    machines = place(order)
    alone = len(machines) == 1
    files, steps = [], []
    for machine in machines:
        name = "serve.sh" if alone else f"serve-{machine.number}.sh"
        addresses = _host(machine, alone)
        files.append(File(name, _script(head, [STOP, addresses, *_replicas(order, machine, start), "wait\n"])))
        steps.append(f"bash {name}" + ("" if alone else f" on machine {_described(machine)}"))
    if router is not None:
        program, flags = router
        addresses = "".join(_host(machine, alone) for machine in machines)
        files.append(File("router.sh", _script(head, [addresses, f"exec {command({}, program, flags)}\n"])))
        steps.append("bash router.sh" + ("" if alone else f" with HOST_1 to HOST_{len(machines)} set"))
    return Exported(tuple(files), tuple(steps))


def _replicas(order: Order, machine: Machine, start: Start) -> list[str]:
    model = f"MODEL={shlex.quote(order.model_path)}\n"
    commands = (f"{command(*start(replica))} &\n" for replica in machine.replicas)
    return [model, *_power_caps(machine), *commands]


def _power_caps(machine: Machine) -> list[str]:
    lines = [
        f"nvidia-smi -i {','.join(map(str, replica.devices))} -pl {replica.group.power_cap_w:g}\n"
        for replica in machine.replicas
        if replica.group.power_cap_w is not None
    ]
    return ["# Power caps; they need root.\n" + "".join(lines)] if lines else []


def _host(machine: Machine, alone: bool) -> str:
    name = f"HOST_{machine.number}"
    if alone:
        return f'{name}="${{{name}:-{ALONE}}}"\n'
    return f': "${{{name}:?set it to the address of machine {_described(machine)}}}"\n'


def _described(machine: Machine) -> str:
    device = re.sub(r"[^\w.-]", " ", machine.device.name)
    return f"{machine.number}, which has {machine.used} x {device}"


def _script(head: str, parts: Sequence[str]) -> str:
    return "\n".join([f"#!/usr/bin/env bash\n{head}set -euo pipefail\n", *parts])
