"""Arrivals and the router: where a request is prefilled, where it goes when a replica is lent or lost."""

import numpy as np

from twofold.compiled import compiled
from twofold.scheduler.lists import restart
from twofold.scheduler.memory import blocks_for, final_tokens, hands_over
from twofold.scheduler.queue import dequeue, enqueue
from twofold.scheduler.routing import choose_replica, note_dispatch, note_end, note_first_token
from twofold.scheduler.state import BOTH, DECODE, DECODING, NONE, PREFILL, REJECTED, WAITING, Scheduler
from twofold.simulate.events import draw
from twofold.simulate.inbox import holds_back, put
from twofold.simulate.losses import judge_finished, judge_rejected
from twofold.simulate.measure import settle
from twofold.simulate.room import ask_decoder, assign_decoder, choose_decoder, could_hold, drop_room, that_holds
from twofold.simulate.runs import free_blocks_now, poke
from twofold.simulate.state import QUEUED, Simulation


@compiled
def orphan(sim: Simulation, i: int) -> None:
    """No replica is alive for request ``i``: it waits at the router."""
    control = sim.control[0]
    sim.life[i].next = NONE
    if control.orphan_tail >= 0:
        sim.life[control.orphan_tail].next = i
    else:
        control.orphans = i
    control.orphan_tail = i


@compiled
def _one_less(sim: Simulation, time: float) -> None:
    """A request is done with; in a closed loop the next one arrives."""
    control = sim.control[0]
    control.ended += 1
    if control.released < control.requests:
        sim.arrivals[control.released] = time
        sim.scheduler.requests[control.released].arrival = time
        control.released += 1


@compiled
def reject(sim: Simulation, i: int, time: float) -> None:
    """Refuse a request that no replica could ever hold."""
    sim.scheduler.requests[i].state = REJECTED
    sim.control[0].rejected += 1
    judge_rejected(sim, i)
    _one_less(sim, time)


@compiled
def _none_holds(s: Scheduler, members: np.ndarray, i: int) -> bool:
    position = 0
    while position < len(members) and not could_hold(s, i, int(members[position])):
        position += 1
    return position == len(members)


@compiled
def _too_long(sim: Simulation, i: int, p: int) -> bool:
    s = sim.scheduler
    if p < 0:
        return _none_holds(s, sim.entry, i)
    return bool(hands_over(s, i) and _none_holds(s, sim.exit, i))


@compiled
def _borrow(sim: Simulation, p: int) -> int:
    """Splitwise's mixed pool: a decode replica when the prompt replicas are too far behind, else ``p`` itself."""
    control, s = sim.control[0], sim.scheduler
    if not control.mixed_pool or (p >= 0 and sim.routes[p].prefill_tokens <= control.mixed_tokens):
        return p
    best = p
    for r in sim.exit:
        if not s.replicas[r].alive or s.replicas[r].home_role != DECODE:
            continue
        if best < 0 or sim.routes[r].prefill_tokens < sim.routes[best].prefill_tokens:
            best = int(r)
    return best


@compiled
def lend(sim: Simulation, r: int) -> None:
    """Let a replica work for the other phase too, once more."""
    replica = sim.scheduler.replicas[r]
    replica.role = BOTH
    replica.foreign += 1
    sim.control[0].borrowed += 1


@compiled
def give_back(sim: Simulation, r: int) -> None:
    """One piece of foreign work is done; after the last the replica returns to its own pool."""
    replica = sim.scheduler.replicas[r]
    replica.foreign -= 1
    if replica.foreign == 0:
        replica.role = replica.home_role


@compiled
def send(sim: Simulation, i: int, time: float) -> None:
    """Route request ``i`` to a replica that prefills it."""
    s, life = sim.scheduler, sim.life[i]
    settle(sim, i, time)
    life.phase = QUEUED
    first = draw(sim)
    p = choose_replica(s, sim.routes, sim.router, sim.entry, i, True, first, draw(sim))
    p = that_holds(s, sim.entry, i, _borrow(sim, p))
    s.requests[i].moves = p >= 0 and s.replicas[p].home_role == PREFILL
    if _too_long(sim, i, p):
        reject(sim, i, time)
        return
    if p < 0:
        orphan(sim, i)
        return
    life.prefiller, life.prefilling = p, 1
    note_dispatch(s, sim.routes, p, i, True)
    if s.replicas[p].home_role == DECODE:
        lend(sim, p)
    if hands_over(s, i) and (sim.control[0].push or sim.control[0].choose_early):
        d = choose_decoder(sim, i)
        if d >= 0:
            assign_decoder(sim, i, d)
        if sim.control[0].push:
            _wait_for_room(sim, i, p, time)
            return
    join(sim, i, time)


@compiled
def _wait_for_room(sim: Simulation, i: int, p: int, time: float) -> None:
    """Push: the prompt is not prefilled before its decode replica has room."""
    sim.scheduler.requests[i].state, sim.scheduler.requests[i].replica = WAITING, NONE
    if sim.life[i].decoder < 0:
        abandon(sim, i, p, time)
        orphan(sim, i)
        return
    ask_decoder(sim, i, time)


@compiled
def abandon(sim: Simulation, i: int, p: int, time: float) -> None:
    """Take request ``i`` off the router's account of prefill replica ``p``, and off its decode replica's."""
    if sim.life[i].prefilling:
        sim.life[i].prefilling = 0
        note_first_token(sim.scheduler, sim.routes, p, i)
        if sim.scheduler.replicas[p].home_role == DECODE:
            give_back(sim, p)
    note_end(sim.scheduler, sim.routes, p, i)
    drop_room(sim, i, time)


@compiled
def join(sim: Simulation, i: int, time: float) -> None:
    """Put request ``i`` in the queue of its prefill replica."""
    p = int(sim.life[i].prefiller)
    if not sim.scheduler.replicas[p].alive:
        abandon(sim, i, p, time)
        orphan(sim, i)
        return
    if holds_back(sim, p) and not sim.control[0].push:
        put(sim, p, i)
        poke(sim, p, time)
        return
    enqueue(sim.scheduler, p, i)
    if sim.scheduler.replicas[p].queue == i:
        poke(sim, p, time)


@compiled
def return_preempted(sim: Simulation, d: int, time: float) -> None:
    """Requests that a decode replica had to preempt are prefilled again by a prefill replica.

    All of them leave its queue first: the router may well send one back, to be prefilled there.
    """
    s, requests, head = sim.scheduler, sim.control[0].requests, NONE
    while s.replicas[d].waiting > 0:
        slot = dequeue(s, d)
        i = slot % requests
        if slot != i:
            s.requests[i].generated = s.requests[slot].generated
            s.requests[i].preemptions += 1
        note_end(s, sim.routes, d, i)
        sim.life[i].next = head
        head = int(i)
    while head >= 0:
        i = head
        head = int(sim.life[i].next)
        start_over(sim, i, time)


@compiled
def start_over(sim: Simulation, i: int, time: float) -> None:
    """Route a request whose KV is gone again; its tokens are kept and prefilled with the prompt."""
    life = sim.life[i]
    restart(sim.scheduler, i)
    life.sent = life.flows = life.granted = life.asked = 0
    life.prefiller = life.decoder = NONE
    life.retries += 1
    send(sim, i, time)


@compiled
def end_request(sim: Simulation, slot: int, r: int, time: float) -> None:
    """Request of ``slot`` has its last token, made on replica ``r``."""
    i = int(slot % sim.control[0].requests)
    sim.life[i].finish = time
    judge_finished(sim, i)
    _one_less(sim, time)
    note_end(sim.scheduler, sim.routes, r, i)
    replica = sim.scheduler.replicas[r]
    if slot == i and replica.home_role == PREFILL and not sim.scheduler.requests[i].moves:
        give_back(sim, r)


@compiled
def first_token(sim: Simulation, i: int, r: int) -> None:
    """The prompt of ``i`` has been prefilled on ``r``, for the first time since it was sent there."""
    if not sim.life[i].prefilling:
        return
    sim.life[i].prefilling = 0
    note_first_token(sim.scheduler, sim.routes, r, i)
    if sim.scheduler.replicas[r].home_role == DECODE:
        give_back(sim, r)


@compiled
def decode_here(sim: Simulation, i: int, r: int, time: float) -> bool:
    """Splitwise: decode on the prompt replica when no decode replica has room; whether that is the case."""
    s = sim.scheduler
    if not sim.control[0].mixed_pool or sim.life[i].decoder >= 0:
        return False
    for d in sim.exit:
        replica = s.replicas[d]
        tokens = final_tokens(s, i) if replica.reserve else int(s.requests[i].target) + 1
        needed = blocks_for(tokens, replica.block_tokens)
        if replica.alive and free_blocks_now(sim, d, time) >= needed:
            return False
    s.requests[i].moves, s.requests[i].state = 0, DECODING
    s.replicas[r].held -= 1
    s.decoding[r, s.replicas[r].decoding] = i
    s.replicas[r].decoding += 1
    lend(sim, r)
    return True
