"""Requests on a replica: admission into its lists, preemption, the end of a prompt, the end of a request."""

import numpy as np

from twofold.compiled import compiled
from twofold.scheduler.memory import allocate, final_tokens, register, release
from twofold.scheduler.queue import dequeue, enqueue
from twofold.scheduler.state import (
    DECODE,
    DECODING,
    DONE,
    HELD,
    LOADING,
    NONE,
    STARTED,
    WAITING,
    Scheduler,
)


@compiled
def batch_size(s: Scheduler, r: int) -> int:
    """Requests that count against ``max_batch``: started, decoding, just ended, on their way to a decode replica."""
    replica = s.replicas[r]
    coming = replica.held if replica.home_role == DECODE else 0
    return int(replica.started + replica.decoding + replica.late_seats + coming)


@compiled
def admit_head(s: Scheduler, r: int) -> bool:
    """Start the first waiting request, if the batch and the memory have room; False when it must wait."""
    replica = s.replicas[r]
    slot = replica.queue
    if slot < 0 or batch_size(s, r) >= replica.max_batch:
        return False
    request = s.requests[slot]
    tokens = request.target if request.moves or not replica.reserve else final_tokens(s, slot)
    if not allocate(s, r, slot, tokens):
        return False
    dequeue(s, r)
    replica.admissions += 1
    replica.reused_tokens += request.reused
    request.admission = replica.admissions
    request.planned = request.computed = request.context = request.reused
    request.state = STARTED
    if request.from_host + request.from_disk > 0:
        request.state = LOADING
        replica.loading += 1
    s.started[r, replica.started] = slot
    replica.started += 1
    return True


@compiled
def loaded(s: Scheduler, r: int, slot: int) -> None:
    """Told that the blocks of ``slot`` have come back from a lower tier."""
    s.requests[slot].state = STARTED
    s.replicas[r].loading -= 1
    register(s, r, slot)


@compiled
def adopt(s: Scheduler, r: int, slot: int) -> None:
    """Put a request, whose KV has arrived in blocks already reserved on ``r``, among the decodes of ``r``."""
    request, replica = s.requests[slot], s.replicas[r]
    request.state, request.replica, request.in_flight = DECODING, r, 0
    replica.admissions += 1
    request.admission = replica.admissions
    s.decoding[r, replica.decoding] = slot
    replica.decoding += 1
    if replica.identified:
        register(s, r, slot)


@compiled
def _remove(requests: np.ndarray, count: int, slot: int) -> int:
    kept = 0
    for i in range(count):
        if requests[i] != slot:
            requests[kept] = requests[i]
            kept += 1
    return kept


@compiled
def leave_lists(s: Scheduler, r: int, slot: int) -> None:
    """Take a request out of the started or decoding list of ``r``."""
    replica = s.replicas[r]
    if s.requests[slot].state == LOADING:
        replica.loading -= 1
    if s.requests[slot].state == DECODING:
        replica.decoding = _remove(s.decoding[r], replica.decoding, slot)
    else:
        replica.started = _remove(s.started[r], replica.started, slot)


@compiled
def restart(s: Scheduler, slot: int) -> None:
    """Forget the KV of a request but not its tokens: it will prefill prompt and generated tokens again."""
    request = s.requests[slot]
    request.target = request.prompt + request.generated
    request.planned = request.computed = request.context = 0
    request.in_flight, request.state, request.replica = 0, WAITING, NONE


@compiled
def preempt(s: Scheduler, r: int, slot: int) -> None:
    """Take a running request's blocks and put it back in the queue, to be recomputed."""
    leave_lists(s, r, slot)
    release(s, r, slot)
    restart(s, slot)
    s.requests[slot].preemptions += 1
    s.replicas[r].preemptions += 1
    enqueue(s, r, slot)


@compiled
def newest(s: Scheduler, r: int, first: int) -> int:
    """The newest request that may be preempted: started, or decoding from position ``first`` on; NONE if none."""
    replica = s.replicas[r]
    best, latest = NONE, NONE
    for i in range(replica.started):
        slot = s.started[r, i]
        request = s.requests[slot]
        if not request.in_flight and request.admission > latest:
            best, latest = slot, request.admission
    for i in range(first, replica.decoding):
        slot = s.decoding[r, i]
        request = s.requests[slot]
        if not request.in_flight and request.admission > latest:
            best, latest = slot, request.admission
    return int(best)


@compiled
def finish(s: Scheduler, r: int, slot: int) -> None:
    """The request has all its tokens: its blocks are free, if late for a plan that is made ahead."""
    replica = s.replicas[r]
    free = replica.free_blocks
    release(s, r, slot)
    s.requests[slot].state = DONE
    if replica.ahead:
        replica.late_blocks += replica.free_blocks - free
        replica.late_seats += 1


@compiled
def end_prefill(s: Scheduler, r: int, slot: int) -> None:
    """The prompt is computed and has given one token: finish, decode here, or hold the KV for a decode replica."""
    request, replica = s.requests[slot], s.replicas[r]
    request.generated += 1
    if request.generated >= request.output:
        finish(s, r, slot)
    elif not request.moves:
        request.state = DECODING
        s.decoding[r, replica.decoding] = slot
        replica.decoding += 1
    else:
        request.state = HELD
        replica.held += 1
