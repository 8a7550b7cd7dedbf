"""Pools of identified KV blocks: least-recently-used reuse by content hash, and tiers below the device.

Replica ``r`` has three pools: device 3r, host 3r + 1, disk 3r + 2. A free block that still holds known content stays
findable until it is taken; what leaves a pool then falls to the tier below, if there is one.
"""

from twofold.compiled import compiled
from twofold.scheduler.state import NONE, Scheduler

TIERS = 3


@compiled
def _bin(h: int, mask: int) -> int:
    return (h ^ (h >> 17)) & mask


@compiled
def find(s: Scheduler, p: int, h: int) -> int:
    """The block of pool ``p`` with content hash ``h``, or NONE."""
    pool = s.pools[p]
    if pool.count == 0:
        return NONE
    i = _bin(h, pool.mask)
    while s.bins[pool.bins + i] >= 0:
        block = s.bins[pool.bins + i]
        if s.blocks[block].hash == h:
            return int(block)
        i = (i + 1) & pool.mask
    return NONE


@compiled
def label(s: Scheduler, p: int, block: int, h: int) -> None:
    """Make ``block`` findable in pool ``p`` under the content hash ``h`` (not 0, not in the pool yet)."""
    pool = s.pools[p]
    s.blocks[block].hash = h
    i = _bin(h, pool.mask)
    while s.bins[pool.bins + i] >= 0:
        i = (i + 1) & pool.mask
    s.bins[pool.bins + i] = block


@compiled
def _unlabel(s: Scheduler, p: int, block: int) -> None:
    pool = s.pools[p]
    i = _bin(s.blocks[block].hash, pool.mask)
    while s.bins[pool.bins + i] != block:
        i = (i + 1) & pool.mask
    s.blocks[block].hash = 0
    hole = i
    while True:
        i = (i + 1) & pool.mask
        other = s.bins[pool.bins + i]
        if other < 0:
            break
        home = _bin(s.blocks[other].hash, pool.mask)
        if ((i - home) & pool.mask) >= ((i - hole) & pool.mask):
            s.bins[pool.bins + hole] = other
            hole = i
    s.bins[pool.bins + hole] = NONE


@compiled
def unlink(s: Scheduler, p: int, block: int) -> None:
    """Take ``block`` out of the free list of pool ``p``."""
    pool, this = s.pools[p], s.blocks[block]
    if this.previous >= 0:
        s.blocks[this.previous].next = this.next
    else:
        pool.head = this.next
    if this.next >= 0:
        s.blocks[this.next].previous = this.previous
    else:
        pool.tail = this.previous
    pool.free -= 1


@compiled
def link(s: Scheduler, p: int, block: int) -> None:
    """Append ``block`` to the free list of pool ``p``: the last to be taken."""
    pool, this = s.pools[p], s.blocks[block]
    this.previous, this.next = pool.tail, NONE
    if pool.tail >= 0:
        s.blocks[pool.tail].next = block
    else:
        pool.head = block
    pool.tail = block
    pool.free += 1


@compiled
def _evict(s: Scheduler, p: int) -> tuple[int, int]:
    block = s.pools[p].head
    unlink(s, p, block)
    h = s.blocks[block].hash
    if h != 0:
        _unlabel(s, p, block)
    return int(block), int(h)


@compiled
def demote(s: Scheduler, p: int, h: int) -> None:
    """Keep the content ``h``, which has left pool ``p``, in the tiers below, pushing their oldest further down."""
    tier = p + 1
    while h != 0 and tier % TIERS != 0:
        if s.pools[tier].count > 0:
            block = find(s, tier, h)
            if block >= 0:
                unlink(s, tier, block)
                link(s, tier, block)
                return
            block, pushed = _evict(s, tier)
            label(s, tier, block, h)
            link(s, tier, block)
            h = pushed
        tier += 1


@compiled
def take(s: Scheduler, p: int) -> int:
    """Take the least recently used free block of pool ``p`` for one user; its old content falls a tier."""
    block, h = _evict(s, p)
    demote(s, p, h)
    s.blocks[block].users = 1
    return block


@compiled
def share(s: Scheduler, p: int, block: int) -> None:
    """Add a user to a block whose content is wanted again."""
    if s.blocks[block].users == 0:
        unlink(s, p, block)
    s.blocks[block].users += 1


@compiled
def drop(s: Scheduler, p: int, block: int) -> None:
    """Take a user away; without users the block is free but stays findable."""
    s.blocks[block].users -= 1
    if s.blocks[block].users == 0:
        link(s, p, block)


@compiled
def forget_all(s: Scheduler, p: int) -> None:
    """Lose the content of every block of pool ``p`` that nobody uses (a restart with empty memory)."""
    pool = s.pools[p]
    for block in range(pool.first, pool.first + pool.count):
        if s.blocks[block].hash != 0 and s.blocks[block].users == 0:
            _unlabel(s, p, block)
