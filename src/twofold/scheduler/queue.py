"""The waiting queue of a replica: a skew heap threaded through the request slots.

The key of a request never changes while it waits. First come first served: its arrival. Short first with ageing:
a prompt of n tokens that has waited a seconds weighs 2**(a / ageing) / n; the order of two such weights does not
depend on the time of asking, so the key is arrival / ageing + log2(n).
"""

import math

from twofold.compiled import compiled
from twofold.scheduler.state import BY_PRIORITY, NONE, SHORT_FIRST, WAITING, Scheduler


@compiled
def before(s: Scheduler, a: int, b: int) -> bool:
    """Whether request ``a`` is served before request ``b``."""
    first, second = s.requests[a], s.requests[b]
    if first.rank != second.rank:
        return bool(first.rank < second.rank)
    if first.key != second.key:
        return bool(first.key < second.key)
    return a < b


@compiled
def _merge(s: Scheduler, a: int, b: int) -> int:
    root = parent = NONE
    while a >= 0 and b >= 0:
        if before(s, b, a):
            a, b = b, a
        if parent < 0:
            root = a
        else:
            s.requests[parent].left = a
        rest = s.requests[a].right
        s.requests[a].right = s.requests[a].left
        parent, a = a, rest
    rest = a if a >= 0 else b
    if parent < 0:
        return rest
    s.requests[parent].left = rest
    return root


@compiled
def enqueue(s: Scheduler, r: int, slot: int) -> None:
    """Put a request in the waiting queue of replica ``r``, by the order of that replica."""
    request, replica = s.requests[slot], s.replicas[r]
    request.state, request.replica = WAITING, r
    request.left = request.right = NONE
    request.key = request.arrival
    if replica.order == SHORT_FIRST:
        request.key = request.arrival / replica.ageing_s + math.log2(request.target)
    if replica.order != BY_PRIORITY:
        request.rank = 0
    replica.queue = _merge(s, replica.queue, slot)
    replica.waiting += 1


@compiled
def dequeue(s: Scheduler, r: int) -> int:
    """Take the first request out of the waiting queue of replica ``r``; NONE when nobody waits."""
    replica = s.replicas[r]
    slot = replica.queue
    if slot < 0:
        return NONE
    replica.queue = _merge(s, s.requests[slot].left, s.requests[slot].right)
    replica.waiting -= 1
    return int(slot)


@compiled
def withdraw(s: Scheduler, r: int, slot: int) -> None:
    """Take one request, wherever it stands, out of the waiting queue of replica ``r``."""
    kept, count = NONE, 0
    head = dequeue(s, r)
    while head >= 0:
        if head != slot:
            s.requests[head].left = s.requests[head].right = NONE
            kept = _merge(s, kept, head)
            count += 1
        head = dequeue(s, r)
    s.replicas[r].queue, s.replicas[r].waiting = kept, count
