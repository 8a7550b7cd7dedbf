"""A multiplexed replica: decode steps on one lane while one batch of prompts goes through its layers on the other.

Rounds as in SGLang's PD-Mux: each launches one decode step and the next few layers of the prompt batch, then waits for
the decode step alone. The split changes only when a batch is formed, when it is merged into the decodes, and when the
decodes run out; both lanes are waited for then.
"""

from twofold.compiled import compiled
from twofold.cost.split import prompt_speed
from twofold.cost.step import Speed, at, step_seconds
from twofold.scheduler.fill import step_load
from twofold.scheduler.groups import pick_group
from twofold.scheduler.policies import Fill
from twofold.scheduler.split import layers_per_round
from twofold.scheduler.step import plan_step, repeats
from twofold.simulate.events import push
from twofold.simulate.replica import begin_loads, end_run
from twofold.simulate.runs import awake, lane_line, launch
from twofold.simulate.state import STEP_END, Simulation


@compiled
def _adjust(sim: Simulation, r: int) -> None:
    """Choose the split for what both lanes have to do now."""
    s, k = sim.scheduler, r * sim.scheduler.lanes
    decode, prefill = sim.lanes[k], sim.lanes[k + 1]
    group = pick_group(s, r, k, bool(prefill.busy))
    split = s.splits[r, group]
    decode.flops, decode.weights, decode.kv = split.decode_flops, split.decode_weights, split.decode_kv
    speed = Speed(split.prefill_flops, split.prefill_weights, split.prefill_kv)
    if prefill.busy:
        speed = prompt_speed(split, step_load(s, k + 1).prompt_tokens, speed)
    prefill.flops, prefill.weights, prefill.kv = speed
    station = sim.stations[r]
    station.adjust = 0
    if station.group != group:
        station.group = group
        station.switches += 1


@compiled
def _launch_layers(sim: Simulation, r: int, time: float, beside: bool) -> None:
    """Queue layers of the prompt batch: those of one round beside decodes, else all that are left."""
    s, k = sim.scheduler, r * sim.scheduler.lanes + 1
    lane, cost, load = sim.lanes[k], s.costs[r], step_load(s, k)
    layers, stretch = int(lane.layers_left), 1.0
    if beside:
        layers = min(layers, layers_per_round(load.prompt_tokens, int(cost.layers), int(s.replicas[r].layer_budget)))
        stretch = cost.contention_prefill
    seconds = step_seconds(cost, load, Speed(lane.flops, lane.weights, lane.kv)) * stretch / cost.layers
    lane.free = max(lane.free, time) + layers * seconds
    lane.layers_left -= layers


@compiled
def _prompts_done(sim: Simulation, r: int, time: float) -> bool:
    lane = sim.lanes[r * sim.scheduler.lanes + 1]
    return bool(lane.busy and lane.layers_left == 0 and lane.free <= time)


@compiled
def _launch_rounds(sim: Simulation, r: int, time: float) -> None:
    """Start rounds: as many as go by until the prompt batch is seen to be done or the scheduler must decide."""
    s, k = sim.scheduler, r * sim.scheduler.lanes
    lane, cost, load = sim.lanes[k], s.costs[r], step_load(s, k)
    line, context = lane_line(sim, r, k), load.context
    most = repeats(s, r, k) if sim.control[0].fast else 1
    lane.start, lane.steps, lane.stretch = time, 0, cost.contention_decode
    while lane.steps == 0 or (lane.steps < most and not _prompts_done(sim, r, time)):
        if sim.lanes[k + 1].layers_left > 0:
            _launch_layers(sim, r, time, True)
        time += at(line, context) * lane.stretch
        context += load.decodes
        lane.steps += 1
    lane.end, lane.busy = time, 1
    lane.version += 1
    push(sim, time, STEP_END, k, lane.version)


@compiled
def _form_batch(sim: Simulation, r: int, time: float, custom: Fill) -> None:
    s, k = sim.scheduler, r * sim.scheduler.lanes + 1
    lane = sim.lanes[k]
    if plan_step(s, r, k, custom) > 0:
        start = awake(sim, r, time)
        lane.busy, lane.steps, lane.start, lane.free = 1, 1, start, start
        lane.layers_left, lane.stretch = s.costs[r].layers, 1.0
        sim.stations[r].adjust = 1
    begin_loads(sim, r, time)


@compiled
def start_round(sim: Simulation, r: int, time: float, custom: Fill) -> None:
    """At a round boundary of ``r``: form a batch if none is in flight, adjust the split, launch both lanes."""
    s, k = sim.scheduler, r * sim.scheduler.lanes
    lane, prefill = sim.lanes[k], sim.lanes[k + 1]
    alone = prefill.busy and lane.steps == 0
    if lane.busy or alone or not s.replicas[r].alive:
        return
    if not prefill.busy:
        _form_batch(sim, r, time, custom)
    decodes = plan_step(s, r, k, custom)
    if decodes == 0 and not prefill.busy:
        return
    if decodes == 0 or sim.stations[r].adjust or not prefill.busy:
        _adjust(sim, r)
        time = max(time, prefill.free) if prefill.busy else time
    if decodes == 0:
        _launch_layers(sim, r, time, False)
        lane.steps = 0
        prefill.version += 1
        push(sim, prefill.free, STEP_END, k + 1, prefill.version)
    elif prefill.busy:
        _launch_rounds(sim, r, time)
    else:
        lane.stretch = 1.0
        launch(sim, r, k, time)


@compiled
def end_round(sim: Simulation, r: int, k: int, time: float) -> None:
    """A round (or the prompt batch alone) has ended: account for it, and merge the batch if it is seen to be done."""
    first = r * sim.scheduler.lanes
    if k == first:
        end_run(sim, r, k, time)
    if _prompts_done(sim, r, time):
        sim.lanes[first + 1].end = time
        sim.lanes[first].steps = 1
        end_run(sim, r, first + 1, time)
        sim.stations[r].adjust = 1
