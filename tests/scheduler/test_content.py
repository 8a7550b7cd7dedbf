"""Names of content against the published hash, and as names of prefixes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small import scheduler, with_prefixes

from twofold.scheduler.content import _absorb, begin, digest, name_pieces
from twofold.scheduler.memory import block_hash
from twofold.scheduler.state import refer

KEY = np.array([0x03020100, 0x07060504])
TOKENS = st.lists(st.integers(0, 3), min_size=0, max_size=12)


@pytest.mark.parametrize(
    ("words", "published"),
    [([], "218d1f59b9b83cc8"), ([0x03020100], "d5e78a175be52ea1"), ([0x03020100, 0x07060504], "edfee820bce4858c")],
)
def test_it_is_half_siphash(words, published):
    """Reference vectors of HalfSipHash-2-4 with 64 bits: bytes 0, 1, 2, ... under the key 0, 1, ..., 7."""
    state = begin(KEY)
    for word in words:
        state = _absorb(state, word)
    low, high = digest(state, len(words))
    assert (low | high << 32).to_bytes(8, "little").hex() == published


def names(tokens, steps, piece=3):
    """Names of the pieces of ``tokens``, which become known in ``steps``."""
    s = scheduler(f"1B,prefix,blocks={piece}", [16], [16], **with_prefixes([[1] * 16], piece))
    s.requests[0].hash_count = 0
    store, chains = np.zeros((1, 16), np.int32), np.array([begin(KEY)])
    store[0, : len(tokens)] = tokens
    gained = [name_pieces(refer(s), 0, 0, store, known, chains) for known in (*steps, len(tokens))]
    assert sum(gained) == s.requests[0].hash_count == len(tokens) // piece
    return s.hashes[: sum(gained)].tolist(), [block_hash(refer(s), 0, 0, i) for i in range(sum(gained))]


@given(one=TOKENS, other=TOKENS)
@settings(deadline=None, max_examples=60)
def test_equal_names_are_equal_beginnings(one, other):
    first, second = names(one, [])[0], names(other, [])[0]
    for index, (a, b) in enumerate(zip(first, second, strict=False)):
        assert (a == b) == (one[: 3 * index + 3] == other[: 3 * index + 3])


@given(tokens=TOKENS, cuts=st.lists(st.integers(0, 12), max_size=4))
@settings(deadline=None, max_examples=40)
def test_names_do_not_depend_on_when_tokens_come(tokens, cuts):
    assert names(tokens, sorted(cut for cut in cuts if cut <= len(tokens))) == names(tokens, [])


@pytest.mark.parametrize("piece", [1, 3, 16])
def test_names_of_blocks_are_never_unknown(piece):
    pieces, blocks = names([2**31 - 1] * 16, [], piece)
    assert min(pieces) >= 1
    assert min(blocks) >= 1
    assert len(set(blocks)) == len(blocks)
