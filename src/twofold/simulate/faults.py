"""Faults: a replica or its link dies and comes back; what was on it is prefilled again, resumed, or waits.

Memory that is ``kept`` (a process that restarts onto its KV) only pauses its requests. Memory that is lost sends them
back to the router with the tokens they have; a request whose KV is still held by its prefill replica is resumed there.
"""

import math

from twofold.compiled import compiled
from twofold.scheduler.blocks import TIERS, forget_all
from twofold.scheduler.memory import grow, release
from twofold.scheduler.routing import note_end
from twofold.scheduler.state import DECODING, DONE, HELD, MOVING, NONE, REJECTED, WAITING, Scheduler
from twofold.simulate.dispatch import abandon, send, start_over
from twofold.simulate.events import push
from twofold.simulate.inbox import deliver
from twofold.simulate.network import advance, remove_flow, share_links
from twofold.simulate.replica import end_run
from twofold.simulate.room import drop_room, twin
from twofold.simulate.runs import poke, walk
from twofold.simulate.state import FAULT_ENDS, Simulation
from twofold.simulate.transfer import prefill_held


@compiled
def _stop_lanes(sim: Simulation, r: int, time: float) -> None:
    """Commit the steps that were over by ``time`` and drop the one in flight."""
    s = sim.scheduler
    first = r * s.lanes
    lane = sim.lanes[first]
    if lane.busy and lane.steps > 1 and s.replicas[r].stages == 1:
        steps, end = walk(sim, r, first, lane.steps, time)
        if end > time:
            steps -= 1
        if steps > 0:
            lane.steps = steps
            lane.end = walk(sim, r, first, steps, 1e300)[1]
            end_run(sim, r, first, lane.end)
            _plan_again(s, r, first)
    for k in range(first, first + s.lanes):
        sim.lanes[k].busy = sim.lanes[k].layers_left = 0
        sim.lanes[k].version += 1
    for stage in range(sim.stage_free.shape[1]):
        sim.stage_free[r, stage] = time


@compiled
def _plan_again(s: Scheduler, r: int, k: int) -> None:
    """The decodes of the step that was in flight have taken the blocks that they were to fill."""
    for item in range(s.steps[k].items):
        slot = int(s.item_slots[k, item])
        if s.requests[slot].state == DECODING:
            grow(s, r, slot, int(s.requests[slot].context) + 1)


@compiled
def _recall_steps(sim: Simulation, r: int) -> None:
    """What was in flight on ``r`` has not happened."""
    s = sim.scheduler
    replica = s.replicas[r]
    for position in range(replica.started):
        request = s.requests[s.started[r, position]]
        request.in_flight, request.planned = 0, request.computed
    for position in range(replica.decoding):
        s.requests[s.decoding[r, position]].in_flight = 0


@compiled
def _drop_flows(sim: Simulation, i: int, time: float) -> None:
    advance(sim, time)
    f = 0
    while f < sim.control[0].flows:
        if sim.flows[f].slot == i:
            remove_flow(sim, f)
        else:
            f += 1
    sim.life[i].flows = sim.life[i].sent = 0
    sim.life[i].retries += 1


@compiled
def _lose_decoder(sim: Simulation, i: int, time: float) -> None:
    s, slot = sim.scheduler, twin(sim, i)
    request, life = s.requests[i], sim.life[i]
    if request.state == DONE:
        if s.requests[slot].state <= DECODING:
            request.generated = s.requests[slot].generated
            release(s, life.decoder, slot)
            note_end(s, sim.routes, life.decoder, i)
            s.requests[slot].state = DONE
            life.lost = 1
        return
    _drop_flows(sim, i, time)
    drop_room(sim, i, time)
    if request.state == HELD:
        life.lost = 2
    elif request.state == WAITING and request.replica == NONE:
        abandon(sim, i, int(life.prefiller), time)
        life.lost = 1


@compiled
def _lose_prefiller(sim: Simulation, i: int, r: int, time: float) -> None:
    s, request = sim.scheduler, sim.scheduler.requests[i]
    _drop_flows(sim, i, time)
    if request.blocks > 0:
        release(s, r, i)
    abandon(sim, i, r, time)
    sim.life[i].lost = 1


@compiled
def _lose_memory(sim: Simulation, r: int, time: float) -> None:
    s, control = sim.scheduler, sim.control[0]
    for i in range(control.next_arrival):
        request, life = s.requests[i], sim.life[i]
        if life.decoder == r and request.state != REJECTED:
            _lose_decoder(sim, i, time)
        if request.replica == r and request.state < MOVING and life.prefiller == r:
            _lose_prefiller(sim, i, r, time)
    replica = s.replicas[r]
    replica.started = replica.decoding = replica.waiting = replica.loading = replica.held = replica.foreign = 0
    replica.role, replica.queue = replica.home_role, NONE
    for tier in range(TIERS - 1):
        forget_all(s, r * TIERS + tier)
    share_links(sim, time)
    for i in range(control.next_arrival):
        lost = sim.life[i].lost
        sim.life[i].lost = 0
        if lost == 1:
            control.reprefilled += 1
            start_over(sim, i, time)
        elif lost == 2:
            control.resumed += 1
            prefill_held(sim, i, time)


@compiled
def _switch_link(sim: Simulation, r: int, change: int, time: float) -> None:
    advance(sim, time)
    sim.ports[r].up += change
    sim.ports[len(sim.stations) + r].up += change
    share_links(sim, time)


@compiled
def fault_begins(sim: Simulation, index: int, time: float) -> None:
    """Fault ``index`` of the schedule begins."""
    fault, s = sim.faults[index], sim.scheduler
    r = int(fault.target)
    sim.control[0].faults += 1
    if fault.for_s < math.inf:
        push(sim, time + fault.for_s, FAULT_ENDS, index, 0)
    _switch_link(sim, r, -1, time)
    if fault.link:
        if not fault.kept:
            _restart_flows(sim, r)
            share_links(sim, time)
        return
    station = sim.stations[r]
    station.down += 1
    station.failures += 1
    if s.replicas[r].alive:
        station.down_since = time
        deliver(sim, r)
        _stop_lanes(sim, r, time)
        _recall_steps(sim, r)
        s.replicas[r].alive = 0
    if not fault.kept:
        _lose_memory(sim, r, time)


@compiled
def _restart_flows(sim: Simulation, r: int) -> None:
    for f in range(sim.control[0].flows):
        flow = sim.flows[f]
        if flow.source == r or flow.target == r:
            flow.left, flow.cap, flow.credit = flow.bytes, 0.0, 0.0


@compiled
def fault_ends(sim: Simulation, index: int, time: float) -> None:
    """Fault ``index`` is over: the replica or link is back, and those that waited for one go on."""
    fault, s, control = sim.faults[index], sim.scheduler, sim.control[0]
    r = int(fault.target)
    _switch_link(sim, r, 1, time)
    if fault.link:
        return
    station = sim.stations[r]
    station.down -= 1
    if station.down > 0:
        return
    station.down_s += time - station.down_since
    s.replicas[r].alive = 1
    poke(sim, r, time)
    i, control.orphans, control.orphan_tail = control.orphans, NONE, NONE
    while i >= 0:
        following = sim.life[i].next
        send(sim, i, time)
        i = following
    for j in range(control.next_arrival):
        if s.requests[j].state == HELD and sim.life[j].decoder < 0:
            prefill_held(sim, j, time)
