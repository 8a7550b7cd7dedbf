"""Prompt chunks by the compiled kernel: longer than its lanes and than the tokens it scores at a time."""

import pytest
import torch
from test_attention import HEADS, WIDTH, batch_of, expected, pool_of

from twofold.engine import attention
from twofold.engine.attention import Attention
from twofold.engine.causal import CHUNK, COMPILED, LANES
from twofold.engine.pool import Pool

pytestmark = pytest.mark.skipif(not COMPILED, reason="the kernel is compiled code")

LENGTHS, CONTEXTS = [1, LANES + 9, 3, CHUNK], [CHUNK + 1, 3 * CHUNK + LANES, CHUNK + 2, CHUNK]


def attended(query: torch.Tensor, pool: Pool, lengths: list[int], contexts: list[int], *at: object) -> torch.Tensor:
    tables, window = at
    return Attention(batch_of(lengths, contexts, tables), pool, HEADS, (window,))(query, 0)


@pytest.mark.parametrize("window", [0, 1, 7, CHUNK, 2 * CHUNK + 5])
def test_long_chunks_are_their_definition(window: int) -> None:
    pool, tables = pool_of(CONTEXTS, torch.float32)
    query = torch.randn(sum(LENGTHS), HEADS, WIDTH, generator=torch.Generator().manual_seed(2))
    batch = batch_of(LENGTHS, CONTEXTS, tables)
    found = Attention(batch, pool, HEADS, (window,))
    assert found.chunks is not None
    torch.testing.assert_close(found(query, 0).double(), expected(query, pool, batch, window), rtol=4e-6, atol=4e-6)


@pytest.mark.parametrize("window", [0, 50])
def test_cuts_threads_and_batch_mates_change_no_bit(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pool, tables = pool_of([3 * CHUNK, 40], torch.float32)
    query = torch.randn(3 * CHUNK, HEADS, WIDTH)
    whole = attended(query, pool, [3 * CHUNK], [3 * CHUNK], tables[:1], window)
    for cut in (2, 37, CHUNK, 3 * CHUNK - 2):
        first = attended(query[:cut], pool, [cut], [cut], tables[:1], window)
        rest = attended(query[cut:], pool, [3 * CHUNK - cut], [3 * CHUNK], tables[:1], window)
        assert torch.equal(torch.cat([first, rest]), whole)
    monkeypatch.setattr(attention, "threads_for", lambda work, worth: 3)
    both = attended(torch.cat([query, query[:9]]), pool, [3 * CHUNK, 9], [3 * CHUNK, 40], tables, window)
    assert torch.equal(both[: 3 * CHUNK], whole)


def test_a_query_may_be_part_of_a_larger_tensor() -> None:
    pool, tables = pool_of([90], torch.float32)
    both = torch.randn(90, HEADS + 4, WIDTH)
    found = attended(both[:, :HEADS], pool, [90], [90], tables, 0)
    assert torch.equal(found, attended(both[:, :HEADS].contiguous(), pool, [90], [90], tables, 0))


def test_extreme_scores_stay_finite() -> None:
    pool, tables = pool_of([80], torch.float32)
    batch = batch_of([70], [80], tables)
    query = torch.full((70, HEADS, WIDTH), 1e4)
    found = Attention(batch, pool, HEADS, (0,))(query, 0)
    torch.testing.assert_close(found.double(), expected(query, pool, batch, 0), rtol=1e-5, atol=1e-5)


def test_numbers_of_half_precision_and_odd_widths_go_through_torch() -> None:
    pool, tables = pool_of([9], torch.bfloat16)
    assert Attention(batch_of([9], [9], tables), pool, HEADS, (0,)).chunks is None
    narrow = Pool(*(torch.randn(1, 3, 4, 2, 6) for _ in range(2)))
    assert Attention(batch_of([9], [9], tables), narrow, HEADS, (0,)).chunks is None
