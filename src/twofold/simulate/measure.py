"""Measuring: every token gap, and where the time of every request goes.

Gaps are kept as arithmetic progressions (a run of decode steps lengthens by the same amount a step under a cost that
is linear in the context), so that all of them are counted exactly in the space of the runs.
"""

import math

from twofold.compiled import compiled
from twofold.cost.step import Line, Load, at, full_speed, stage_line, step_joules
from twofold.scheduler.fill import step_load
from twofold.simulate.losses import judge_first_token
from twofold.simulate.state import ON_LINK, QUEUED, RUNNING, WAITS_FOR_SLOT, Simulation


@compiled
def record_progression(sim: Simulation, first: float, last: float, count: int, weight: int) -> None:
    """``weight`` requests have each waited ``count`` gaps in arithmetic progression from ``first`` to ``last``."""
    control = sim.control[0]
    run = sim.runs[control.runs]
    run.first, run.last, run.count, run.weight = first, last, count, weight
    control.runs += 1


@compiled
def settle(sim: Simulation, i: int, time: float) -> None:
    """Account for the time of request ``i`` up to ``time``, by the phase that it has been in."""
    life = sim.life[i]
    passed = time - life.since
    if life.phase == QUEUED:
        life.queued_s += passed
    elif life.phase == RUNNING:
        life.stall_s += passed
    elif life.phase == WAITS_FOR_SLOT:
        life.slot_s += passed
    elif life.phase == ON_LINK:
        life.transfer_s += passed
    life.since = time


@compiled
def _enter_step(sim: Simulation, i: int, slot: int, start: float) -> None:
    life, request = sim.life[i], sim.scheduler.requests[slot]
    if life.since == start and life.phase == RUNNING:
        return
    if request.preemptions != life.preemptions_seen:
        life.phase, life.preemptions_seen = QUEUED, request.preemptions
    settle(sim, i, start)
    life.phase = RUNNING
    if math.isnan(life.start):
        life.start = start


@compiled
def account_chunk(sim: Simulation, slot: int, start: float, end: float, gives_token: bool) -> None:
    """A prompt chunk of ``slot`` was computed from ``start`` to ``end``; the last one gives a token.

    In a pipeline it may have started before the chunk ahead of it had left.
    """
    i = slot % sim.control[0].requests
    life = sim.life[i]
    if not math.isnan(life.start):
        start = max(start, life.since)
    _enter_step(sim, i, slot, start)
    life.prefill_s += end - start
    life.since = end
    if gives_token:
        if math.isnan(life.first_token):
            life.first_token = end
            judge_first_token(sim, i)
        else:
            gap = end - life.last_token
            record_progression(sim, gap, gap, 1, 1)
            life.max_gap = max(life.max_gap, gap)
        life.last_token = end


@compiled
def _account_decode(sim: Simulation, slot: int, start: float, first: float, end: float, longest: float) -> float:
    """Account for the run of one decode whose first step takes ``first`` seconds; returns the gap before that token."""
    i = slot if slot < sim.control[0].requests else slot - sim.control[0].requests
    _enter_step(sim, i, slot, start)
    life = sim.life[i]
    gap = first if life.last_token == start else start - life.last_token + first
    life.decode_s += end - start
    life.since = life.last_token = end
    life.max_gap = max(life.max_gap, gap, longest)
    if math.isnan(life.first_decode):
        life.first_decode = start + first
    return gap


@compiled
def _record_first_gaps(sim: Simulation, k: int, first: float, longest: float) -> None:
    s = sim.scheduler
    pending, weight = -1.0, 0
    for item in range(s.steps[k].items):
        if s.item_tokens[k, item] > 0:
            continue
        gap = _account_decode(sim, int(s.item_slots[k, item]), sim.lanes[k].start, first, sim.lanes[k].end, longest)
        if gap != pending and weight > 0:
            record_progression(sim, pending, pending, 1, weight)
            weight = 0
        pending = gap
        weight += 1
    if weight > 0:
        record_progression(sim, pending, pending, 1, weight)


@compiled
def account_run(sim: Simulation, r: int, k: int, line: Line) -> None:
    """Lane ``k``, whose steps take ``line``, has finished its run: account for its decodes and for the replica."""
    s, lane = sim.scheduler, sim.lanes[k]
    load = step_load(s, k)
    more = lane.steps - 1
    first, longest = lane.end - lane.start, 0.0
    if s.replicas[r].stages == 1:
        first = at(line, load.context) * lane.stretch
        longest = at(line, load.context + more * load.decodes) * lane.stretch
    if load.decodes > 0:
        _record_first_gaps(sim, k, first, longest)
        _record_run(sim, line, load, more, lane.stretch)
    _measure_station(sim, r, k, load, line)


@compiled
def _record_run(sim: Simulation, line: Line, load: Load, more: int, stretch: float) -> None:
    """Record the gaps of steps 1 to ``more`` of a run, bending only where the line does."""
    step, context = 1, load.context
    while step <= more:
        first = at(line, context + step * load.decodes) * stretch
        end = more
        if step < more and not _straight(line, context + step * load.decodes, context + more * load.decodes):
            end = step
        last = at(line, context + end * load.decodes) * stretch
        record_progression(sim, first, last, end - step + 1, load.decodes)
        step = end + 1


@compiled
def _straight(line: Line, start: int, end: int) -> bool:
    """Whether the same side of the roofline is the higher one at both contexts."""
    at_start = line.flops + line.flops_slope * start >= line.bytes + line.bytes_slope * start
    at_end = line.flops + line.flops_slope * end >= line.bytes + line.bytes_slope * end
    return at_start == at_end


@compiled
def _measure_station(sim: Simulation, r: int, k: int, load: Load, line: Line) -> None:
    lane, station, cost = sim.lanes[k], sim.stations[r], sim.scheduler.costs[r]
    seconds, steps = lane.end - lane.start, lane.steps
    if cost.stages == 1 and not _beside_prompts(sim, r, k):
        station.busy_s += seconds
    station.steps += steps
    station.decode_tokens += load.decodes * steps
    late = load.context + (steps - 1) * load.decodes
    held = 0.5 * (load.context + late) + load.prefix + load.prompt_tokens
    station.kv_token_s += held * seconds
    full = line
    if min(lane.flops, lane.weights, lane.kv) < 1.0:
        full = stage_line(cost, load, full_speed(), True)
    station.joules += 0.5 * steps * (step_joules(cost, full, load.context) + step_joules(cost, full, late))
    sim.control[0].steps += steps


@compiled
def _beside_prompts(sim: Simulation, r: int, k: int) -> bool:
    """Whether lane ``k`` ran beside a prompt lane, whose time is counted already."""
    multiplexed = sim.scheduler.replicas[r].lanes == 2
    return bool(multiplexed and k == r * sim.scheduler.lanes and sim.lanes[k + 1].busy)


@compiled
def log_run(sim: Simulation, r: int, k: int) -> None:
    """Write the run of lane ``k`` to the timeline, if one is kept."""
    control, step, lane = sim.control[0], sim.scheduler.steps[k], sim.lanes[k]
    if not control.logging:
        return
    line = sim.log[control.logs]
    line.kind, line.replica, line.lane = 0, r, k - r * sim.scheduler.lanes
    line.start, line.end, line.steps = lane.start, lane.end, lane.steps
    line.decodes, line.prompt_tokens, line.slot = step.decodes, step.prompt_tokens, -1
    control.logs += 1
