"""Runs of steps: the next decodes of a replica are stepped through at once, until something outside happens.

A run is planned to the next decision of the scheduler (``repeats``). When something reaches the replica earlier, the
run is cut at the first step boundary from then on, which is where a real engine would notice.
"""

import math

from twofold.compiled import compiled
from twofold.cost.step import Line, Speed, at, stage_line, wake_seconds
from twofold.scheduler.fill import step_load
from twofold.scheduler.step import blocks_to_come, repeats
from twofold.simulate.events import push
from twofold.simulate.state import STEP_END, WAKE, Simulation


@compiled
def lane_line(sim: Simulation, r: int, k: int) -> Line:
    """Seconds of the planned step of lane ``k``, at the speed of the lane, against its context."""
    lane = sim.lanes[k]
    speed = Speed(lane.flops, lane.weights, lane.kv)
    return stage_line(sim.scheduler.costs[r], step_load(sim.scheduler, k), speed, True)


@compiled
def walk(sim: Simulation, r: int, k: int, steps: int, horizon: float) -> tuple[int, float]:
    """Step lane ``k`` from its start, at most ``steps`` times and not beyond the boundary that reaches ``horizon``."""
    lane, load = sim.lanes[k], step_load(sim.scheduler, k)
    line = lane_line(sim, r, k)
    time, context, stretch = lane.start, load.context, lane.stretch
    for step in range(steps):
        time += at(line, context) * stretch
        if time >= horizon:
            return step + 1, time
        context += load.decodes
    return steps, time


@compiled
def awake(sim: Simulation, r: int, time: float) -> float:
    """When a step that is planned at ``time`` begins: what has done nothing for a while is slow to start."""
    s, last = sim.scheduler, 0.0
    for k in range(r * s.lanes, r * s.lanes + s.replicas[r].lanes):
        if sim.lanes[k].busy:
            return time
        last = max(last, sim.lanes[k].end)
    return float(time + wake_seconds(s.costs[r], time - last))


@compiled
def launch(sim: Simulation, r: int, k: int, time: float) -> None:
    """Start the planned step of lane ``k``, and those that would follow it unchanged."""
    control, lane = sim.control[0], sim.lanes[k]
    horizon = math.inf
    if control.look_ahead == 0 and control.next_arrival < control.requests:
        horizon = sim.arrivals[control.next_arrival]
    lane.start = awake(sim, r, time)
    steps = repeats(sim.scheduler, r, k) if control.fast else 1
    lane.steps, lane.end = walk(sim, r, k, steps, horizon)
    lane.busy = 1
    lane.version += 1
    push(sim, lane.end, STEP_END, k, lane.version)


@compiled
def cut(sim: Simulation, r: int, k: int, time: float) -> None:
    """End the run of lane ``k`` at its first step boundary at or after ``time``."""
    lane = sim.lanes[k]
    if lane.steps <= 1:
        return
    steps, end = walk(sim, r, k, lane.steps, time)
    if steps < lane.steps:
        lane.steps, lane.end = steps, end
        lane.version += 1
        push(sim, end, STEP_END, k, lane.version)


@compiled
def free_blocks_now(sim: Simulation, r: int, time: float) -> int:
    """Free KV blocks of ``r`` at ``time``: a run in flight has taken those of its steps up to then."""
    s = sim.scheduler
    k, free = r * s.lanes, int(s.replicas[r].free_blocks)
    if not sim.lanes[k].busy or sim.lanes[k].steps <= 1:
        return free
    steps, _ = walk(sim, r, k, sim.lanes[k].steps, time)
    return free - blocks_to_come(s, r, k, steps)


@compiled
def poke(sim: Simulation, r: int, time: float) -> None:
    """Something has reached replica ``r``: it looks at its next step boundary, at once if it is idle."""
    s = sim.scheduler
    k = r * s.lanes
    lane = sim.lanes[k]
    if lane.busy and s.replicas[r].stages == 1:
        if not (s.replicas[r].lanes == 2 and sim.lanes[k + 1].busy):
            cut(sim, r, k, time)
    elif not lane.woken:
        lane.woken = 1
        push(sim, time, WAKE, r, 0)
