"""KV memory of a replica: who gets blocks, who grows, who gives them back, what a prefix saves.

Blocks are counted. Where content matters (prefix reuse, a real engine) they are identified too, and then
``free_blocks`` mirrors the free list of the device pool, whose free blocks may still hold reusable content.
"""

from twofold.compiled import compiled
from twofold.cost.step import Load, chunk_pairs, full_speed, step_seconds
from twofold.scheduler.blocks import TIERS, drop, find, label, share, take
from twofold.scheduler.state import NONE, Scheduler


@compiled
def blocks_for(tokens: int, block_tokens: int) -> int:
    """Blocks that hold ``tokens`` tokens."""
    return (tokens + block_tokens - 1) // block_tokens


@compiled
def final_tokens(s: Scheduler, slot: int) -> int:
    """KV tokens that a request holds at its very end, the last token's included."""
    request = s.requests[slot]
    return int(request.prompt) + int(request.output)


@compiled
def hands_over(s: Scheduler, slot: int) -> bool:
    """Whether a request goes on to a decode replica: it does not when its prompt gives the last token."""
    request = s.requests[slot]
    return bool(request.moves and request.generated + 1 < request.output)


@compiled
def block_hash(s: Scheduler, r: int, slot: int, index: int) -> int:
    """Content hash of block ``index`` of a request: names all tokens up to its end; 0 when unknown."""
    request, replica = s.requests[slot], s.replicas[r]
    last = (index + 1) * replica.block_tokens - 1
    piece = last // replica.hash_tokens
    if piece >= request.hash_count:
        return 0
    return int(s.hashes[request.hashes + piece] * replica.hash_tokens + last % replica.hash_tokens + 1)


@compiled
def reusable(s: Scheduler, r: int, slot: int, tier: int, start: int) -> int:
    """How many blocks from ``start`` on are found, without a gap, in tier 0 (device), 1 (host) or 2 (disk)."""
    replica = s.replicas[r]
    if not replica.identified or replica.hash_tokens == 0:
        return 0
    most = (s.requests[slot].target - 1) // replica.block_tokens
    index = start
    while index < most:
        h = block_hash(s, r, slot, index)
        if h == 0 or find(s, r * TIERS + tier, h) < 0:
            break
        index += 1
    return index - start


@compiled
def _recompute_seconds(s: Scheduler, r: int, start: int, tokens: int) -> float:
    load = Load(0, 0, tokens, chunk_pairs(start, tokens), start, 0, 0)
    return step_seconds(s.costs[r], load, full_speed())


@compiled
def _plan_fetch(s: Scheduler, r: int, slot: int, hits: int) -> int:
    request, replica = s.requests[slot], s.replicas[r]
    size = replica.block_tokens
    host = reusable(s, r, slot, 1, hits)
    disk = reusable(s, r, slot, 2, hits + host)
    request.from_host = request.from_disk = 0
    seconds = host * size * replica.load_token_s
    if host > 0 and seconds < _recompute_seconds(s, r, hits * size, host * size):
        request.from_host = host * size
        seconds = disk * size * replica.load_disk_token_s
        if disk > 0 and seconds < _recompute_seconds(s, r, (hits + host) * size, disk * size):
            request.from_disk = disk * size
    elif host == 0 and disk > 0:
        seconds = disk * size * replica.load_disk_token_s
        if seconds < _recompute_seconds(s, r, hits * size, disk * size):
            request.from_disk = disk * size
    return int((request.from_host + request.from_disk) // size)


@compiled
def allocate(s: Scheduler, r: int, slot: int, tokens: int) -> bool:
    """Give a request the blocks for ``tokens`` tokens, reusing its known prefix; False when they are not free."""
    request, replica = s.requests[slot], s.replicas[r]
    total = blocks_for(tokens, replica.block_tokens)
    if not replica.identified:
        if total > replica.free_blocks - replica.late_blocks:
            return False
        replica.free_blocks -= total
        request.blocks, request.reused, request.registered = total, 0, 0
        request.from_host = request.from_disk = 0
        return True
    pool = r * TIERS
    hits, idle = reusable(s, r, slot, 0, 0), 0
    for index in range(hits):
        if s.blocks[find(s, pool, block_hash(s, r, slot, index))].users == 0:
            idle += 1
    if total - hits > replica.free_blocks - replica.late_blocks - idle:
        return False
    fetched = _plan_fetch(s, r, slot, hits)
    for index in range(hits):
        block = find(s, pool, block_hash(s, r, slot, index))
        share(s, pool, block)
        s.tables[request.table + index] = block
    for index in range(hits, total):
        s.tables[request.table + index] = take(s, pool)
    replica.free_blocks = s.pools[pool].free
    request.blocks, request.registered = total, hits
    request.reused = (hits + fetched) * replica.block_tokens
    return True


@compiled
def grow(s: Scheduler, r: int, slot: int, tokens: int) -> bool:
    """Make sure that a request holds blocks for ``tokens`` tokens; False (and nothing taken) when none is free."""
    if tokens <= s.requests[slot].blocks * s.replicas[r].block_tokens:
        return True
    return _take_more(s, r, slot, tokens)


@compiled
def _take_more(s: Scheduler, r: int, slot: int, tokens: int) -> bool:
    request, replica = s.requests[slot], s.replicas[r]
    more = blocks_for(tokens, replica.block_tokens) - request.blocks
    if more > replica.free_blocks - replica.late_blocks:
        return False
    if replica.identified:
        for index in range(request.blocks, request.blocks + more):
            s.tables[request.table + index] = take(s, r * TIERS)
        replica.free_blocks = s.pools[r * TIERS].free
    else:
        replica.free_blocks -= more
    request.blocks += more
    return True


@compiled
def release(s: Scheduler, r: int, slot: int) -> None:
    """Take back all blocks of a request, the tail first, so that a shared prefix is the last to be evicted."""
    request, replica = s.requests[slot], s.replicas[r]
    if replica.identified:
        for index in range(request.blocks - 1, -1, -1):
            drop(s, r * TIERS, s.tables[request.table + index])
        replica.free_blocks = s.pools[r * TIERS].free
    else:
        replica.free_blocks += request.blocks
    request.blocks = request.context = request.registered = 0


@compiled
def register(s: Scheduler, r: int, slot: int) -> None:
    """Make the blocks that a request has filled findable by their content."""
    request, replica = s.requests[slot], s.replicas[r]
    if replica.hash_tokens == 0:
        return
    pool = r * TIERS
    full = request.context // replica.block_tokens
    while request.registered < full:
        h = block_hash(s, r, slot, request.registered)
        if h == 0:
            return
        if find(s, pool, h) == NONE:
            label(s, pool, s.tables[request.table + request.registered], h)
        request.registered += 1
