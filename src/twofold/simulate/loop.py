"""The event loop: one clock for a whole deployment.

It returns to Python every so many events (progress, Ctrl-C) and whenever a buffer must grow, and goes on where it was.
"""

from typing import Any

from twofold.compiled import compiled
from twofold.scheduler.lists import loaded
from twofold.scheduler.policies import Fill
from twofold.simulate.dispatch import send
from twofold.simulate.events import pop, push
from twofold.simulate.faults import fault_begins, fault_ends
from twofold.simulate.measure import settle
from twofold.simulate.multiplex import end_round, start_round
from twofold.simulate.network import advance, finished_flow, remove_flow, share_links
from twofold.simulate.pipeline import start_micro_batches
from twofold.simulate.replica import end_run, start_step
from twofold.simulate.runs import poke
from twofold.simulate.state import (
    FAULT_BEGINS,
    FAULT_ENDS,
    FINISHED,
    FLOW_START,
    FULL,
    KV_ARRIVED,
    LOADED,
    NETWORK,
    PAUSED,
    QUEUED,
    STAGE_FREE,
    STEP_END,
    WAKE,
    Simulation,
)
from twofold.simulate.transfer import kv_arrived, start_stream


@compiled
def _next_step(sim: Simulation, r: int, time: float, custom: Fill) -> None:
    replica = sim.scheduler.replicas[r]
    if replica.lanes == 2:
        start_round(sim, r, time, custom)
    elif replica.stages > 1:
        start_micro_batches(sim, r, time, custom)
    else:
        start_step(sim, r, time, custom)


@compiled
def _step_ends(sim: Simulation, k: int, time: float, custom: Fill) -> None:
    r = k // sim.scheduler.lanes
    if sim.scheduler.replicas[r].lanes == 2:
        end_round(sim, r, k, time)
    else:
        end_run(sim, r, k, time)
    _next_step(sim, r, time, custom)


@compiled
def _flows_end(sim: Simulation, time: float) -> None:
    control = sim.control[0]
    advance(sim, time)
    f = finished_flow(sim, time)
    while f >= 0:
        flow = sim.flows[f]
        control.transferred += flow.bytes
        if control.logging:
            line = sim.log[control.logs]
            line.kind, line.replica, line.lane, line.slot = 1, flow.source, flow.target, flow.slot
            line.start, line.end, line.steps, line.decodes = flow.start, time, 1, 0
            control.logs += 1
        push(sim, time + control.latency_s, KV_ARRIVED, flow.slot, sim.life[flow.slot].retries)
        remove_flow(sim, f)
        f = finished_flow(sim, time)
    share_links(sim, time)


@compiled
def _load_ends(sim: Simulation, slot: int, admission: int, time: float) -> None:
    request = sim.scheduler.requests[slot]
    if request.admission == admission and request.state == 1:
        i = slot % sim.control[0].requests
        settle(sim, i, time)
        sim.life[i].phase = QUEUED
        loaded(sim.scheduler, int(request.replica), slot)
        poke(sim, int(request.replica), time)


@compiled
def _wake(sim: Simulation, r: int, time: float, custom: Fill) -> None:
    """Replica ``r`` was idle when something reached it; if it has started a run since, the run is cut."""
    lane = sim.lanes[r * sim.scheduler.lanes]
    lane.woken = 0
    if lane.busy and sim.scheduler.replicas[r].stages == 1:
        poke(sim, r, time)
    else:
        _next_step(sim, r, time, custom)


@compiled
def _handle(sim: Simulation, kind: int, who: int, version: int, time: float, custom: Fill) -> None:
    if kind == STEP_END:
        if sim.lanes[who].version == version:
            _step_ends(sim, who, time, custom)
    elif kind == WAKE:
        _wake(sim, who, time, custom)
    elif kind == STAGE_FREE:
        _next_step(sim, who, time, custom)
    elif kind == NETWORK:
        if sim.control[0].net_version == version:
            _flows_end(sim, time)
    elif kind == KV_ARRIVED:
        if sim.life[who].retries == version:
            kv_arrived(sim, who, time)
    elif kind == FLOW_START:
        if sim.life[who].retries == version:
            start_stream(sim, who, 1, time)
    elif kind == LOADED:
        _load_ends(sim, who, version, time)
    elif kind == FAULT_BEGINS:
        fault_begins(sim, who, time)
    elif kind == FAULT_ENDS:
        fault_ends(sim, who, time)


@compiled
def _thin(sim: Simulation) -> None:
    """Keep every other sample; those to come are twice as far apart."""
    control = sim.control[0]
    control.samples //= 2
    control.sample_every *= 2.0
    for i in range(control.samples):
        kept, line = sim.samples[2 * i], sim.samples[i]
        line.time, line.flows = kept.time, kept.flows
        line.waiting, line.running = kept.waiting, kept.running
        line.held, line.used_blocks = kept.held, kept.used_blocks


@compiled
def _sample(sim: Simulation, time: float) -> None:
    control, s = sim.control[0], sim.scheduler
    while control.next_sample <= time:
        if control.samples == len(sim.samples):
            _thin(sim)
        line = sim.samples[control.samples]
        line.time, line.flows = control.next_sample, control.flows
        line.waiting = line.running = line.held = line.used_blocks = 0
        for r in range(len(sim.stations)):
            replica = s.replicas[r]
            line.waiting += replica.waiting + sim.stations[r].pulls
            line.running += replica.started + replica.decoding
            line.held += replica.held
            line.used_blocks += replica.total_blocks - replica.free_blocks
        control.samples += 1
        control.next_sample += control.sample_every


@compiled
def _room(sim: Simulation) -> bool:
    """Whether every buffer has room for whatever the next event may write."""
    control, s = sim.control[0], sim.scheduler
    events = runs = logs = 0
    margin = 4 * s.item_slots.shape[1] + 64
    if control.events > 0:
        head = sim.heap[0]
        if head.kind == STEP_END:
            runs = sim.lanes[head.who].steps
        elif head.kind == NETWORK:
            events = logs = control.flows
        elif head.kind == FAULT_BEGINS or head.kind == FAULT_ENDS:
            events = 4 * (control.next_arrival - control.ended) + len(sim.stations)
            runs = events + sim.lanes[sim.faults[head.who].target * s.lanes].steps
    return bool(
        control.events + events + margin < len(sim.heap)
        and control.runs + runs + margin < len(sim.runs)
        and control.flows + margin < len(sim.flows)
        and (not control.logging or control.logs + logs + margin < len(sim.log))
    )


def run_events(sim: Simulation, custom: Fill, most: int) -> int:
    """Handle up to ``most`` events; FINISHED, PAUSED (more to do) or FULL (a buffer must grow first).

    Compiled by ``run``, which knows the type of a policy.
    """
    control: Any = sim.control[0]
    for _ in range(most):
        if control.ended == control.requests or control.hopeless:
            break
        if not _room(sim):
            return FULL
        arrives = control.next_arrival < control.released
        if not arrives and control.events == 0:
            break
        if arrives and (control.events == 0 or sim.arrivals[control.next_arrival] <= sim.heap[0].time):
            i = int(control.next_arrival)
            time = sim.arrivals[i]
            _sample(sim, time)
            control.next_arrival += 1
            sim.life[i].since = time
            send(sim, i, time)
        else:
            head = sim.heap[0]
            time, kind, who, version = head.time, head.kind, head.who, head.version
            _sample(sim, time)
            pop(sim)
            _handle(sim, kind, who, version, time, custom)
        control.now = time
    else:
        return PAUSED
    return FINISHED
