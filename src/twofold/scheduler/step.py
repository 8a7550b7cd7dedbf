"""``plan_step`` fills a step, ``commit`` applies it: the two calls of both clocks."""

from twofold.compiled import compiled
from twofold.scheduler.lists import end_prefill, finish
from twofold.scheduler.memory import blocks_for, grow, register
from twofold.scheduler.policies import Fill, fill_step
from twofold.scheduler.state import CUSTOM, DECODING, LOADING, STARTED, UNLIMITED, Scheduler


@compiled
def clear_step(s: Scheduler, k: int) -> None:
    """Empty step ``k``."""
    step = s.steps[k]
    step.items = step.decodes = step.context = step.longest = step.prompts = 0
    step.prompt_tokens = step.pairs = step.prefix = step.rows = 0


@compiled
def _count_since(s: Scheduler, r: int, k: int) -> None:
    step, replica = s.steps[k], s.replicas[r]
    prompts_wait = replica.waiting + replica.started > 0
    replica.since_prefill = replica.since_prefill + 1 if step.prompts == 0 and prompts_wait else 0
    replica.since_decode = replica.since_decode + 1 if step.decodes == 0 and replica.decoding > 0 else 0


@compiled
def plan_step(s: Scheduler, r: int, k: int, custom: Fill) -> int:
    """Fill step ``k`` of replica ``r``; returns how many items it has (0: nothing to do now)."""
    clear_step(s, k)
    preemptions = s.replicas[r].preemptions
    fill_step(s, r, k, custom)
    replica = s.replicas[r]
    replica.disturbed = replica.preemptions > preemptions or replica.late_seats > 0
    replica.late_blocks = replica.late_seats = 0
    if s.steps[k].items > 0:
        _count_since(s, r, k)
    return int(s.steps[k].items)


@compiled
def blocks_to_come(s: Scheduler, r: int, k: int, count: int) -> int:
    """Blocks that ``count`` repetitions of the planned decodes will have taken beyond those they hold."""
    size, more = int(s.replicas[r].block_tokens), 0
    for i in range(s.steps[k].items):
        request = s.requests[s.item_slots[k, i]]
        more += max(0, blocks_for(int(request.context) + count, size) - request.blocks)
    return more


@compiled
def _repeats_in_memory(s: Scheduler, r: int, k: int, most: int) -> int:
    replica = s.replicas[r]
    if replica.identified:
        for i in range(s.steps[k].items):
            request = s.requests[s.item_slots[k, i]]
            most = min(most, request.blocks * replica.block_tokens - request.context)
        return most
    if blocks_to_come(s, r, k, most) <= replica.free_blocks:
        return most
    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        if blocks_to_come(s, r, k, middle) <= replica.free_blocks:
            low = middle
        else:
            high = middle - 1
    return low


@compiled
def repeats(s: Scheduler, r: int, k: int) -> int:
    """How many times in a row the planned step of decodes would be planned again, were nothing to happen outside.

    At least 1; exactly 1 for a step that has prompts. The simulator runs these steps without asking again.
    """
    step, replica = s.steps[k], s.replicas[r]
    if step.prompts > 0 or step.decodes < replica.decoding or replica.disturbed:
        return 1
    if (replica.policy == CUSTOM or replica.decode_every > 0) and replica.waiting + replica.started > 0:
        return 1
    most = UNLIMITED
    for i in range(step.items):
        request = s.requests[s.item_slots[k, i]]
        most = min(most, int(request.output - request.generated))
    if replica.prefill_every > 0 and replica.waiting + replica.started > 0:
        most = min(most, max(1, replica.prefill_every - replica.since_prefill))
    return _repeats_in_memory(s, r, k, most) if most > 1 else 1


@compiled
def _commit_decode(s: Scheduler, r: int, slot: int, count: int) -> bool:
    request = s.requests[slot]
    request.in_flight = 0
    request.generated += count
    if count > 1:
        grow(s, r, slot, int(request.context) + count)
    request.context += count
    if s.replicas[r].identified:
        register(s, r, slot)
    if request.generated < request.output:
        return False
    finish(s, r, slot)
    return True


@compiled
def _commit_chunk(s: Scheduler, r: int, slot: int, tokens: int) -> bool:
    request = s.requests[slot]
    request.in_flight -= 1
    request.computed += tokens
    request.context = request.computed
    s.replicas[r].prefilled_tokens += tokens
    if s.replicas[r].identified:
        register(s, r, slot)
    if request.computed < request.target:
        return False
    end_prefill(s, r, slot)
    return True


@compiled
def _sweep(s: Scheduler, r: int) -> None:
    replica, kept = s.replicas[r], 0
    for i in range(replica.decoding):
        slot = s.decoding[r, i]
        if s.requests[slot].state == DECODING:
            s.decoding[r, kept] = slot
            kept += 1
    replica.decoding = kept


@compiled
def _sweep_started(s: Scheduler, r: int) -> None:
    replica, kept = s.replicas[r], 0
    for i in range(replica.started):
        slot = s.started[r, i]
        state = s.requests[slot].state
        if state in (STARTED, LOADING):
            s.started[r, kept] = slot
            kept += 1
    replica.started = kept


@compiled
def commit(s: Scheduler, r: int, k: int, count: int) -> int:
    """Step ``k`` has been run ``count`` times (more than once only if it was all decodes); returns decodes done."""
    step = s.steps[k]
    done = ended = 0
    if s.replicas[r].since_prefill > 0:
        s.replicas[r].since_prefill += count - 1
    for i in range(step.items):
        slot, tokens = int(s.item_slots[k, i]), int(s.item_tokens[k, i])
        if tokens == 0:
            done += _commit_decode(s, r, slot, count)
        else:
            ended += _commit_chunk(s, r, slot, tokens)
    if done > 0:
        _sweep(s, r)
    if ended > 0:
        _sweep_started(s, r)
    return done
