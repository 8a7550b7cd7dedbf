"""Pools of identified blocks against ordered dictionaries."""

from collections import OrderedDict

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from small import scheduler, with_prefixes

from twofold.scheduler.blocks import TIERS, drop, find, forget_all, label, share, take
from twofold.scheduler.memory import allocate, grow, register, release, reusable
from twofold.scheduler.state import NONE, refer

COUNTS = (12, 5, 4)
HASHES = st.integers(1, 40).map(lambda n: n * 1_000_003 % 65_537 + 1)


def small_pools():
    s = scheduler("1B,prefix,host=1GB,disk=1GB", [100], **with_prefixes([[7]], 16))
    for tier, count in enumerate(COUNTS):
        pool = s.pools[tier]
        pool.count = pool.free = count
        pool.tail = pool.first + count - 1
        s.blocks[pool.tail].next = NONE
        pool.mask = 31
    return s


class Pools(RuleBasedStateMachine):
    """The device pool and two tiers; free blocks in the order of use, each with the content it still holds."""

    def __init__(self):
        super().__init__()
        self.s = small_pools()
        self.state = refer(self.s)
        first = [int(self.s.pools[tier].first) for tier in range(TIERS)]
        self.free = OrderedDict((first[0] + i, 0) for i in range(COUNTS[0]))
        self.used = {}
        self.content = {}
        self.below = [OrderedDict((("empty", i), None) for i in range(count)) for count in COUNTS[1:]]

    def demoted(self, h):
        for tier in self.below:
            if h == 0:
                return
            if h in tier:
                tier.move_to_end(h)
                return
            pushed, _ = tier.popitem(last=False)
            tier[h] = None
            h = 0 if isinstance(pushed, tuple) else pushed

    @precondition(lambda self: self.free)
    @rule()
    def take(self):
        block, h = self.free.popitem(last=False)
        self.content.pop(h, None)
        self.demoted(h)
        assert take(self.state, 0) == block
        self.used[block] = [1, 0]

    @precondition(lambda self: any(h == 0 for _, h in self.used.values()))
    @rule(h=HASHES)
    def label(self, h):
        if h not in self.content:
            block = next(block for block, (_, known) in self.used.items() if known == 0)
            label(self.state, 0, block, h)
            self.used[block][1], self.content[h] = h, block

    @precondition(lambda self: self.content)
    @rule(data=st.data())
    def share(self, data):
        block = self.content[data.draw(st.sampled_from(sorted(self.content)))]
        share(self.state, 0, block)
        if block in self.free:
            self.used[block] = [0, self.free.pop(block)]
        self.used[block][0] += 1

    @precondition(lambda self: self.used)
    @rule(data=st.data())
    def drop(self, data):
        block = data.draw(st.sampled_from(sorted(self.used)))
        drop(self.state, 0, block)
        self.used[block][0] -= 1
        if self.used[block][0] == 0:
            self.free[block] = self.used.pop(block)[1]

    @rule()
    def forget(self):
        forget_all(self.state, 0)
        for block, h in self.free.items():
            self.content.pop(h, None)
            self.free[block] = 0

    @invariant()
    def finds_what_is_known(self):
        for n in range(1, 41):
            h = n * 1_000_003 % 65_537 + 1
            assert find(self.state, 0, h) == self.content.get(h, NONE)
            for tier, known in enumerate(self.below, 1):
                assert (find(self.state, tier, h) != NONE) == (h in known)

    @invariant()
    def free_list_is_in_order_of_use(self):
        found, block = [], int(self.s.pools[0].head)
        while block != NONE:
            found.append(block)
            block = int(self.s.blocks[block].next)
        assert found == list(self.free)
        assert self.s.pools[0].free == len(self.free)
        assert int(self.s.pools[0].tail) == (found[-1] if found else NONE)


TestPools = Pools.TestCase
TestPools.settings = settings(deadline=None, max_examples=25, stateful_step_count=40)


def prefilled(s, state, slot, tokens):
    assert allocate(state, 0, slot, tokens)
    s.requests[slot].context = tokens
    register(state, 0, slot)


def test_a_prefix_is_shared_and_the_last_token_always_computed():
    s = scheduler("1B,prefix", [64, 64, 96], **with_prefixes([[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 9, 9, 9, 9]], 16))
    state = refer(s)
    prefilled(s, state, 0, 64)
    assert allocate(state, 0, 1, 64)
    assert allocate(state, 0, 2, 96)
    assert s.requests.reused.tolist() == [0, 48, 32]
    blocks = [s.tables[s.requests[slot].table : s.requests[slot].table + 4].tolist() for slot in range(3)]
    assert blocks[1][:3] == blocks[0][:3]
    assert blocks[2][:2] == blocks[0][:2]
    assert s.replicas[0].free_blocks == s.replicas[0].total_blocks - 4 - 1 - 4


@pytest.mark.parametrize(("piece", "expected"), [(16, 48), (32, 32), (64, 0)])
def test_blocks_are_known_only_as_far_as_whole_pieces_are(piece, expected):
    count = 63 // piece
    columns = with_prefixes([list(range(1, 1 + count))] * 2, piece)
    s = scheduler("1B,prefix", [63, 63], **columns)
    state = refer(s)
    prefilled(s, state, 0, 63)
    assert 16 * reusable(state, 0, 1, 0, 0) == expected


def test_a_failed_allocation_takes_nothing():
    s = scheduler("1B,prefix", [64, 10**6], **with_prefixes([[1, 2, 3, 4], [1, 2, 3, 4]], 16))
    state = refer(s)
    prefilled(s, state, 0, 64)
    before = (int(s.replicas[0].free_blocks), s.blocks.users.sum())
    assert not allocate(state, 0, 1, 10**6)
    assert not grow(state, 0, 0, 10**7)
    assert (int(s.replicas[0].free_blocks), s.blocks.users.sum()) == before


@pytest.mark.parametrize("text", ["1B", "1B,prefix"])
def test_growing_and_releasing_return_to_the_start(text):
    s = scheduler(text, [100], **(with_prefixes([[5]], 16)))
    state, total = refer(s), int(s.replicas[0].total_blocks)
    assert allocate(state, 0, 0, 100)
    assert s.requests[0].blocks == 7
    assert grow(state, 0, 0, 112)
    assert s.replicas[0].free_blocks == total - 7
    assert grow(state, 0, 0, 113)
    assert s.replicas[0].free_blocks == total - 8
    release(state, 0, 0)
    assert s.replicas[0].free_blocks == total
    assert s.requests[0].blocks == 0
