"""One replica on the simulated clock: start its next step, end the one in flight."""

from twofold.compiled import compiled
from twofold.scheduler.memory import hands_over
from twofold.scheduler.policies import Fill
from twofold.scheduler.state import DECODE, DONE, HELD, LOADING, NONE, WAITING, Scheduler
from twofold.scheduler.step import blocks_to_come, commit, plan_step
from twofold.simulate.dispatch import decode_here, end_request, first_token, join, return_preempted
from twofold.simulate.events import push
from twofold.simulate.inbox import deliver
from twofold.simulate.measure import account_chunk, account_run, log_run, settle
from twofold.simulate.room import grant_room
from twofold.simulate.runs import cut, lane_line, launch
from twofold.simulate.state import LOADED, ON_LINK, Simulation
from twofold.simulate.transfer import chunk_starts, granted, prefill_held


@compiled
def serve_pulls(sim: Simulation, r: int, time: float) -> None:
    """Grant room to requests that wait for it on decode replica ``r``."""
    i = grant_room(sim, r, time)
    while i >= 0:
        request = sim.scheduler.requests[i]
        if request.state == WAITING and request.replica == NONE:
            join(sim, i, time)
        else:
            granted(sim, i, time)
        i = grant_room(sim, r, time)


@compiled
def begin_loads(sim: Simulation, r: int, time: float) -> None:
    """Start bringing back the blocks of newly admitted requests from the tiers below, one after the other."""
    s, station = sim.scheduler, sim.stations[r]
    if s.replicas[r].loading == 0:
        return
    for position in range(s.replicas[r].started):
        slot = int(s.started[r, position])
        request = s.requests[slot]
        if request.state == LOADING and request.from_host + request.from_disk > 0:
            replica = s.replicas[r]
            seconds = request.from_host * replica.load_token_s + request.from_disk * replica.load_disk_token_s
            request.from_host = request.from_disk = 0
            i = slot % sim.control[0].requests
            settle(sim, i, time)
            sim.life[i].phase = ON_LINK
            station.load_free = max(station.load_free, time) + seconds
            push(sim, station.load_free, LOADED, slot, request.admission)


@compiled
def start_step(sim: Simulation, r: int, time: float, custom: Fill) -> None:
    """Plan the next step of an idle replica without pipeline or lanes, and start it."""
    s = sim.scheduler
    k = r * s.lanes
    lane = sim.lanes[k]
    if lane.busy or not s.replicas[r].alive:
        return
    serve_pulls(sim, r, time)
    items = plan_step(s, r, k, custom)
    told = deliver(sim, r)
    if items == 0 and s.replicas[r].ahead:
        items = plan_step(s, r, k, custom)
        told = False
    begin_loads(sim, r, time)
    if s.replicas[r].home_role == DECODE and s.replicas[r].foreign == 0:
        return_preempted(sim, r, time)
    if items == 0:
        return
    launch(sim, r, k, time)
    if told:
        cut(sim, r, k, time)
    if sim.control[0].layerwise and s.steps[k].prompts > 0:
        announce_chunks(sim, k, time)


@compiled
def announce_chunks(sim: Simulation, k: int, time: float) -> None:
    """Layer-wise transfer: the chunks of step ``k`` start to make KV."""
    s = sim.scheduler
    for item in range(s.steps[k].items):
        slot = int(s.item_slots[k, item])
        if s.item_tokens[k, item] > 0 and hands_over(s, slot):
            chunk_starts(sim, slot, time)


@compiled
def _prompt_ends(s: Scheduler, slot: int, tokens: int) -> bool:
    return bool(s.requests[slot].computed + tokens == s.requests[slot].target)


@compiled
def end_run(sim: Simulation, r: int, k: int, time: float) -> None:
    """The run of lane ``k`` has ended: account for it, commit it, and pass its requests on."""
    s, lane = sim.scheduler, sim.lanes[k]
    log_run(sim, r, k)
    account_run(sim, r, k, lane_line(sim, r, k))
    step = s.steps[k]
    if step.prompts > 0:
        for item in range(step.items):
            slot, tokens = int(s.item_slots[k, item]), int(s.item_tokens[k, item])
            if tokens > 0:
                account_chunk(sim, slot, lane.start, time, _prompt_ends(s, slot, tokens))
    lane.busy = 0
    _note_peak(sim, r, k)
    done = commit(s, r, k, lane.steps)
    for item in range(step.items):
        tokens = int(s.item_tokens[k, item])
        if tokens > 0 or done > 0:
            _pass_on(sim, r, int(s.item_slots[k, item]), tokens, time)


@compiled
def _note_peak(sim: Simulation, r: int, k: int) -> None:
    """Keep the most blocks in use; those that a run has taken on the way are counted only where that may be a peak."""
    s, lane, station = sim.scheduler, sim.lanes[k], sim.stations[r]
    replica = s.replicas[r]
    used = replica.total_blocks - replica.free_blocks
    most = s.steps[k].decodes * (lane.steps // replica.block_tokens + 1)
    if lane.steps > 1 and used + most > station.peak_blocks:
        used += blocks_to_come(s, r, k, lane.steps)
    station.peak_blocks = max(station.peak_blocks, used)


@compiled
def _pass_on(sim: Simulation, r: int, slot: int, tokens: int, time: float) -> None:
    request = sim.scheduler.requests[slot]
    at_home = slot < sim.control[0].requests
    if at_home and tokens > 0 and request.computed == request.target:
        first_token(sim, slot, r)
    if request.state == DONE:
        end_request(sim, slot, r, time)
    elif request.state == HELD and tokens > 0 and not decode_here(sim, slot, r, time):
        prefill_held(sim, slot, time)
