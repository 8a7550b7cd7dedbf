"""The verbs that policies are written with: take decodes, take prompts. They fill one step of one replica.

``k`` is the step being filled; ``s.steps[k]`` has its sums, ``s.item_slots[k]`` and ``s.item_tokens[k]`` its items
(0 tokens marks a decode).
"""

from twofold.compiled import compiled
from twofold.cost.step import Load, chunk_pairs, full_speed, step_seconds
from twofold.scheduler.lists import admit_head, newest, preempt
from twofold.scheduler.memory import grow
from twofold.scheduler.queue import before
from twofold.scheduler.state import NONE, STARTED, Scheduler


@compiled
def step_load(s: Scheduler, k: int) -> Load:
    """The sums of step ``k`` as the cost model takes them."""
    step = s.steps[k]
    return Load(step.decodes, step.context, step.prompt_tokens, step.pairs, step.prefix, step.rows, step.longest)


@compiled
def add_decode(s: Scheduler, k: int, slot: int) -> None:
    """One token of a decoding request goes into step ``k``."""
    step, request = s.steps[k], s.requests[slot]
    s.item_slots[k, step.items], s.item_tokens[k, step.items] = slot, 0
    step.items += 1
    step.decodes += 1
    step.rows += 1
    step.context += request.context
    step.longest = max(step.longest, request.context)
    request.in_flight = 1


@compiled
def _item_of(s: Scheduler, k: int, slot: int) -> int:
    """Which item of step ``k`` has prompt tokens of ``slot``; NONE if there is none yet."""
    if s.requests[slot].in_flight > 0:
        for i in range(s.steps[k].items):
            if s.item_slots[k, i] == slot:
                return int(i)
    return NONE


@compiled
def add_chunk(s: Scheduler, k: int, slot: int, tokens: int) -> None:
    """The next ``tokens`` prompt tokens of a started request go into step ``k``, behind those it has there if any."""
    step, request = s.steps[k], s.requests[slot]
    item = _item_of(s, k, slot)
    if item < 0:
        item = int(step.items)
        s.item_slots[k, item], s.item_tokens[k, item] = slot, 0
        step.items += 1
        step.prompts += 1
        step.prefix += request.planned
        request.in_flight += 1
    s.item_tokens[k, item] += tokens
    step.prompt_tokens += tokens
    step.pairs += chunk_pairs(int(request.planned), tokens)
    request.planned += tokens
    if request.planned == request.target:
        step.rows += 1


@compiled
def take_decodes(s: Scheduler, r: int, k: int) -> None:
    """Every decode of the replica, oldest first; when a block is missing the newest request is preempted.

    With pipeline stages each micro-batch takes its share of the decodes that are not in flight.
    """
    replica = s.replicas[r]
    most = (replica.decoding + replica.stages - 1) // replica.stages
    i = 0
    while i < replica.decoding and s.steps[k].decodes < most:
        slot = int(s.decoding[r, i])
        if s.requests[slot].in_flight:
            i += 1
            continue
        victim = NONE
        while victim != slot and not grow(s, r, slot, int(s.requests[slot].context) + 1):
            victim = newest(s, r, i)
            if victim < 0:
                return
            preempt(s, r, victim)
        if victim != slot:
            add_decode(s, k, slot)
            i += 1


@compiled
def _tokens_in_time(s: Scheduler, r: int, k: int, slot: int) -> int:
    load, start = step_load(s, k), int(s.requests[slot].planned)
    low, high = 0, int(s.requests[slot].target) - start
    while low < high:
        middle = (low + high + 1) // 2
        longer = Load(
            load.decodes,
            load.context,
            load.prompt_tokens + middle,
            load.pairs + chunk_pairs(start, middle),
            load.prefix + start,
            load.rows + 1,
            load.longest,
        )
        if step_seconds(s.costs[r], longer, full_speed()) <= s.replicas[r].budget_s:
            low = middle
        else:
            high = middle - 1
    return low


@compiled
def _forced(s: Scheduler, r: int, k: int) -> bool:
    replica = s.replicas[r]
    due = replica.prefill_every > 0 and replica.since_prefill + 1 >= replica.prefill_every
    return bool(due and s.steps[k].prompts == 0)


@compiled
def allowance(s: Scheduler, r: int, k: int, slot: int, whole: bool) -> int:
    """Prompt tokens that the step still has room for, at most what the request has left; 0 when the step is full."""
    step, replica = s.steps[k], s.replicas[r]
    left = int(s.requests[slot].target - s.requests[slot].planned)
    if whole:
        fits = step.prompt_tokens == 0 or step.prompt_tokens + left <= replica.prompt_cap
        return left if fits else 0
    room = replica.token_budget - step.decodes - step.prompt_tokens
    if replica.budget_s > 0.0:
        room = min(room, _tokens_in_time(s, r, k, slot))
    if room <= 0 and _forced(s, r, k):
        room = replica.block_tokens
    if room <= 0 and step.decodes + step.prompt_tokens == 0:
        room = 1
    return int(max(0, min(left, room)))


@compiled
def next_started(s: Scheduler, r: int) -> int:
    """The started request, first in the order of the queue, that has prompt tokens left to plan; NONE if none."""
    best = NONE
    for i in range(s.replicas[r].started):
        slot = int(s.started[r, i])
        request = s.requests[slot]
        if request.state == STARTED and request.planned < request.target and (best < 0 or before(s, slot, best)):
            best = slot
    return best


@compiled
def take_prompts(s: Scheduler, r: int, k: int, whole: bool) -> None:
    """Started prompts and waiting ones, in the order of the queue, until the step or the memory is full.

    ``whole`` prompts are not cut; otherwise each takes what the budget has left (Sarathi-Serve, algorithm 3).
    """
    replica = s.replicas[r]
    blocked = False
    while True:
        slot, head = next_started(s, r), int(replica.queue)
        if slot < 0 and (head < 0 or blocked):
            return
        if head >= 0 and not blocked and (slot < 0 or before(s, head, slot)):
            if allowance(s, r, k, head, whole) == 0:
                return
            blocked = not admit_head(s, r)
            continue
        tokens = allowance(s, r, k, slot, whole)
        if tokens == 0:
            return
        add_chunk(s, k, slot, tokens)
