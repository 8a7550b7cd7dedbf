"""KV on links that flows share max-min fairly: a later flow slows an earlier one, and bandwidth is conserved.

Rates are those of progressive filling (Bertsekas and Gallager, Data Networks, section 6.5): the tightest port sets the
share of its flows, they are frozen, and so on. A layer-wise flow can send no faster than its layers are made, once it
has caught up: it is a flow with a cap.
"""

import math

from twofold.compiled import compiled
from twofold.simulate.events import push
from twofold.simulate.state import NETWORK, Simulation

SMALLEST_CREDIT = 1.0


@compiled
def _ports(sim: Simulation, f: int) -> tuple[int, int, int]:
    replicas = len(sim.stations)
    flow = sim.flows[f]
    return int(flow.source), int(replicas + flow.target), 2 * replicas


@compiled
def _ceiling(sim: Simulation, f: int, time: float) -> float:
    flow = sim.flows[f]
    if flow.cap > 0.0 and time < flow.until and flow.credit <= 0.0:
        return float(flow.cap)
    return math.inf


@compiled
def advance(sim: Simulation, time: float) -> None:
    """Send what the present rates send until ``time``."""
    control = sim.control[0]
    passed = time - control.net_time
    control.net_time = time
    if passed <= 0.0:
        return
    for f in range(control.flows):
        flow = sim.flows[f]
        sent = min(flow.left, flow.rate * passed)
        flow.left -= sent
        if flow.cap > 0.0 and time <= flow.until:
            flow.credit = max(0.0, flow.credit + flow.cap * passed - sent)
        _count_bytes(sim, f, sent, passed)


@compiled
def _count_bytes(sim: Simulation, f: int, sent: float, passed: float) -> None:
    for p in _ports(sim, f):
        sim.ports[p].sent += sent
        if sim.ports[p].flows > 0:
            sim.ports[p].busy_s += passed / sim.ports[p].flows


@compiled
def _open_ports(sim: Simulation) -> None:
    for f in range(sim.control[0].flows):
        flow = sim.flows[f]
        flow.frozen, flow.rate = 0, 0.0
        for p in _ports(sim, f):
            port = sim.ports[p]
            port.room, port.users, port.flows = port.capacity if port.up > 0 else 0.0, 0, 0
    for f in range(sim.control[0].flows):
        for p in _ports(sim, f):
            sim.ports[p].users += 1
            sim.ports[p].flows += 1


@compiled
def _allowed(sim: Simulation, f: int, time: float) -> float:
    allowed = _ceiling(sim, f, time)
    for p in _ports(sim, f):
        allowed = min(allowed, sim.ports[p].room / sim.ports[p].users)
    return allowed


@compiled
def _freeze(sim: Simulation, time: float, level: float) -> None:
    flows = sim.control[0].flows
    for f in range(flows):
        if sim.flows[f].frozen == 0 and _allowed(sim, f, time) <= level:
            sim.flows[f].frozen = 2
    for f in range(flows):
        if sim.flows[f].frozen == 2:
            sim.flows[f].frozen, sim.flows[f].rate = 1, level
            for p in _ports(sim, f):
                sim.ports[p].room = max(0.0, sim.ports[p].room - level)
                sim.ports[p].users -= 1


@compiled
def share_links(sim: Simulation, time: float) -> None:
    """Give every flow its max-min fair rate from ``time`` on and schedule the next change."""
    control = sim.control[0]
    _open_ports(sim)
    unfrozen = control.flows
    while unfrozen > 0:
        level, unfrozen = math.inf, 0
        for f in range(control.flows):
            if not sim.flows[f].frozen:
                level = min(level, _allowed(sim, f, time))
                unfrozen += 1
        if unfrozen > 0:
            _freeze(sim, time, level)
    _schedule(sim, time)


@compiled
def _schedule(sim: Simulation, time: float) -> None:
    control, soonest = sim.control[0], math.inf
    for f in range(control.flows):
        flow = sim.flows[f]
        flow.finish = time + flow.left / flow.rate if flow.rate > 0.0 else math.inf
        soonest = min(soonest, flow.finish)
        if flow.cap > 0.0 and time < flow.until:
            soonest = min(soonest, flow.until)
            if flow.credit > 0.0 and flow.rate > flow.cap:
                soonest = min(soonest, time + flow.credit / (flow.rate - flow.cap))
    control.net_version += 1
    if soonest < math.inf:
        push(sim, soonest, NETWORK, 0, control.net_version)


@compiled
def add_flow(sim: Simulation, time: float, slot: int, source: int, target: int, size: float) -> int:
    """Start a flow of ``size`` bytes; the caller may set its cap, then calls ``share_links``."""
    advance(sim, time)
    control = sim.control[0]
    f = control.flows
    flow = sim.flows[f]
    flow.slot, flow.source, flow.target = slot, source, target
    flow.bytes = flow.left = size
    flow.cap = flow.credit = flow.rate = 0.0
    flow.until = flow.start = time
    control.flows += 1
    return int(f)


@compiled
def remove_flow(sim: Simulation, f: int) -> None:
    """Forget flow ``f``; the last one takes its place."""
    control = sim.control[0]
    control.flows -= 1
    last = control.flows
    if f != last:
        a, b = sim.flows[f], sim.flows[last]
        a.slot, a.source, a.target, a.bytes, a.left = b.slot, b.source, b.target, b.bytes, b.left
        a.rate, a.cap, a.credit, a.until = b.rate, b.cap, b.credit, b.until
        a.finish, a.start, a.frozen = b.finish, b.start, b.frozen


@compiled
def finished_flow(sim: Simulation, time: float) -> int:
    """A flow that has sent everything by ``time``, or -1. Credits that are used up are cleared on the way."""
    for f in range(sim.control[0].flows):
        flow = sim.flows[f]
        if flow.finish <= time:
            return f
        if flow.credit < SMALLEST_CREDIT:
            flow.credit = 0.0
    return -1
