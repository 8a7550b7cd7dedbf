"""A replica with pipeline stages: micro-batches follow each other through the stages, bubbles included.

A micro-batch starts when the first stage is free. A stage starts it when the stage before has handed it over and its
own previous micro-batch has left; what the stage waits is the bubble.
"""

from twofold.compiled import compiled
from twofold.cost.step import Load, full_speed, stage_seconds
from twofold.scheduler.fill import step_load
from twofold.scheduler.policies import Fill
from twofold.scheduler.state import DECODE, NONE
from twofold.scheduler.step import plan_step
from twofold.simulate.dispatch import return_preempted
from twofold.simulate.events import push
from twofold.simulate.replica import begin_loads, serve_pulls
from twofold.simulate.state import STAGE_FREE, STEP_END, Simulation


@compiled
def _idle_lane(sim: Simulation, r: int) -> int:
    first = r * sim.scheduler.lanes
    for k in range(first, first + sim.scheduler.replicas[r].stages):
        if not sim.lanes[k].busy:
            return int(k)
    return NONE


@compiled
def _through_stages(sim: Simulation, r: int, load: Load, time: float) -> float:
    """Send a micro-batch through the stages from ``time`` on; returns when it leaves the last one."""
    cost = sim.scheduler.costs[r]
    stages = int(cost.stages)
    hop = cost.hop_s + cost.hop_token_s * (load.decodes + load.prompt_tokens)
    middle, last = stage_seconds(cost, load, full_speed(), False), stage_seconds(cost, load, full_speed(), True)
    for stage in range(stages):
        seconds = last if stage == stages - 1 else middle
        start = max(time, sim.stage_free[r, stage])
        time = start + seconds
        sim.stage_free[r, stage] = time
        sim.stations[r].busy_s += seconds / stages
        if stage < stages - 1:
            time += hop
    return time


@compiled
def start_micro_batches(sim: Simulation, r: int, time: float, custom: Fill) -> None:
    """Start a micro-batch on replica ``r`` if its first stage is free and a request is ready."""
    s = sim.scheduler
    if not s.replicas[r].alive:
        return
    serve_pulls(sim, r, time)
    k = _idle_lane(sim, r)
    if k < 0 or sim.stage_free[r, 0] > time:
        return
    items = plan_step(s, r, k, custom)
    begin_loads(sim, r, time)
    if s.replicas[r].home_role == DECODE and s.replicas[r].foreign == 0:
        return_preempted(sim, r, time)
    if items == 0:
        return
    lane = sim.lanes[k]
    lane.start, lane.steps, lane.busy, lane.stretch = time, 1, 1, 1.0
    lane.flops = lane.weights = lane.kv = 1.0
    lane.end = _through_stages(sim, r, step_load(s, k), time)
    lane.version += 1
    push(sim, lane.end, STEP_END, k, lane.version)
    push(sim, sim.stage_free[r, 0], STAGE_FREE, r, 0)
