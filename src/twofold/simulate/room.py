"""Room on a decode replica: asked for, granted on its step boundaries, given back.

Pull: the decode replica is asked when the prompt is done (layer-wise: when its first step starts), and the memory of
the prefill replica is the buffer. Push: room is granted first, then the prompt is prefilled. One queue of grants a
decode replica, first come first served.
"""

import numpy as np

from twofold.compiled import compiled
from twofold.scheduler.lists import batch_size
from twofold.scheduler.memory import allocate, blocks_for, final_tokens, release
from twofold.scheduler.queue import withdraw
from twofold.scheduler.routing import choose_replica, note_dispatch, note_end
from twofold.scheduler.state import MOVING, NONE, WAITING, Scheduler
from twofold.simulate.events import draw
from twofold.simulate.runs import poke
from twofold.simulate.state import Simulation


@compiled
def twin(sim: Simulation, i: int) -> int:
    """Slot of request ``i`` on its decode replica."""
    return int(sim.control[0].requests + i)


@compiled
def ask_room(sim: Simulation, i: int, d: int, time: float) -> None:
    """Request ``i`` joins the queue of those that wait for KV room on decode replica ``d``.

    Push: a prompt that was started already (its first decode replica has died) goes first.
    """
    station, life = sim.stations[d], sim.life[i]
    if life.decoder < 0:
        assign_decoder(sim, i, d)
    life.asked, life.next = 1, NONE
    if station.pull_head < 0:
        station.pull_head = station.pull_tail = i
    elif sim.control[0].push and sim.scheduler.requests[i].blocks > 0:
        life.next = station.pull_head
        station.pull_head = i
    else:
        sim.life[station.pull_tail].next = i
        station.pull_tail = i
    station.pulls += 1
    poke(sim, d, time)


@compiled
def assign_decoder(sim: Simulation, i: int, d: int) -> None:
    """Decode replica ``d`` will decode ``i``: the router counts it there from now on."""
    life = sim.life[i]
    life.decoder, life.granted, life.asked = d, 0, 0
    note_dispatch(sim.scheduler, sim.routes, d, i, False)


@compiled
def ask_decoder(sim: Simulation, i: int, time: float) -> None:
    """Ask the decode replica of ``i`` for room, choosing one if none is assigned; without one alive it waits."""
    life = sim.life[i]
    d = int(life.decoder) if life.decoder >= 0 else choose_decoder(sim, i)
    if d >= 0 and not life.asked:
        ask_room(sim, i, d, time)


@compiled
def could_hold(s: Scheduler, slot: int, r: int) -> bool:
    """Whether a request could run to its end on replica ``r``, were it alone there."""
    replica = s.replicas[r]
    return bool(blocks_for(final_tokens(s, slot), replica.block_tokens) <= replica.total_blocks)


@compiled
def that_holds(s: Scheduler, members: np.ndarray, slot: int, r: int) -> int:
    """``r`` if it could hold the request, else the largest of ``members`` that is alive and could, else NONE."""
    if r < 0 or could_hold(s, slot, r):
        return r
    best, most = NONE, 0
    for other in members:
        replica = s.replicas[other]
        if replica.alive and replica.total_blocks > most and could_hold(s, slot, other):
            best, most = int(other), int(replica.total_blocks)
    return best


@compiled
def choose_decoder(sim: Simulation, i: int) -> int:
    """The decode replica that the router picks for ``i``; NONE while none that could hold it is alive."""
    first = draw(sim)
    d = choose_replica(sim.scheduler, sim.routes, sim.router, sim.exit, i, False, first, draw(sim))
    return that_holds(sim.scheduler, sim.exit, i, d)


@compiled
def drop_room(sim: Simulation, i: int, time: float) -> None:
    """Undo ``ask_room``: leave the queue, or give back the blocks that were granted; others may now have room."""
    life, d = sim.life[i], int(sim.life[i].decoder)
    if d < 0:
        return
    s, station = sim.scheduler, sim.stations[d]
    if life.granted:
        release(s, d, twin(sim, i))
        s.replicas[d].held -= 1
    elif life.asked:
        previous, other = NONE, station.pull_head
        while other != i:
            previous, other = other, sim.life[other].next
        if previous < 0:
            station.pull_head = life.next
        else:
            sim.life[previous].next = life.next
        if station.pull_tail == i:
            station.pull_tail = previous
        station.pulls -= 1
    note_end(s, sim.routes, d, i)
    life.decoder, life.granted, life.asked = NONE, 0, 0
    poke(sim, d, time)


@compiled
def _reserve(sim: Simulation, i: int, d: int) -> bool:
    s, slot = sim.scheduler, twin(sim, i)
    replica, here, there = s.replicas[d], s.requests[i], s.requests[slot]
    if batch_size(s, d) >= replica.max_batch:
        return False
    there.prompt, there.output, there.rank, there.arrival = here.prompt, here.output, here.rank, here.arrival
    there.hashes, there.hash_count = here.hashes, here.hash_count
    there.target, there.generated, there.moves = here.target, here.generated, 0
    tokens = final_tokens(s, slot) if replica.reserve else here.target + 1
    if not allocate(s, d, slot, tokens):
        return False
    there.reused -= there.from_host + there.from_disk
    there.from_host = there.from_disk = 0
    there.state, there.replica = MOVING, d
    replica.held += 1
    return True


@compiled
def _revoke(sim: Simulation, d: int, time: float) -> bool:
    """Take back the room of the newest request that has not started its prompt; whether there was one.

    Push after a fault: started prompts fill the prefill replica and wait for room that is promised to prompts which
    wait for that very memory. Those ask again, behind.
    """
    s = sim.scheduler
    for i in range(sim.control[0].next_arrival - 1, -1, -1):
        request, life = s.requests[i], sim.life[i]
        if life.decoder == d and life.granted and request.state == WAITING:
            withdraw(s, int(life.prefiller), i)
            request.replica = NONE
            drop_room(sim, i, time)
            ask_decoder(sim, i, time)
            return True
    return False


@compiled
def grant_room(sim: Simulation, d: int, time: float) -> int:
    """Give room to the requests at the head of the queue of ``d`` while it has any; returns the last granted or NONE.

    The caller goes on with each granted request through ``granted``.
    """
    station = sim.stations[d]
    i = station.pull_head
    while i >= 0 and not _reserve(sim, int(i), d):
        started = sim.control[0].push and sim.scheduler.requests[i].blocks > 0
        if not started or not _revoke(sim, d, time):
            return NONE
    if i < 0:
        return NONE
    station.pull_head = sim.life[i].next
    if station.pull_head < 0:
        station.pull_tail = NONE
    station.pulls -= 1
    sim.life[i].granted = 1
    return int(i)
