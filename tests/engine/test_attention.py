import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from twofold.engine.attention import WORTH_A_THREAD, Attention
from twofold.engine.batch import Batch
from twofold.engine.pool import Pool

HEADS, KV_HEADS, WIDTH, BLOCK = 6, 2, 16, 4


def pool_of(contexts: list[int], dtype: torch.dtype) -> tuple[Pool, torch.Tensor]:
    """A pool of one layer full of random numbers, and tables of shuffled blocks."""
    most = -(-max(contexts) // BLOCK)
    blocks = most * len(contexts)
    shape = (1, blocks, BLOCK, KV_HEADS, WIDTH)
    generator = torch.Generator().manual_seed(5)
    sides = [torch.randn(shape, generator=generator).to(dtype) for _ in range(2)]
    return Pool(*sides), torch.randperm(blocks, generator=generator).reshape(len(contexts), most)


def batch_of(lengths: list[int], contexts: list[int], tables: torch.Tensor) -> Batch:
    starts = torch.tensor([0, *lengths]).cumsum(0)
    nothing = torch.zeros(0, dtype=torch.int64)
    return Batch(nothing, nothing, nothing, starts, torch.tensor(contexts), tables, nothing, lengths.count(1))


def expected(query: torch.Tensor, pool: Pool, batch: Batch, window: int) -> torch.Tensor:
    """The definition, in float64: each token in turn, its softmax over what it sees."""
    rows = []
    for item, context in enumerate(batch.contexts.tolist()):
        first, last = batch.starts[item : item + 2].tolist()
        keys, values = (side[0][batch.tables[item]].flatten(0, 1).double() for side in (pool.keys, pool.values))
        for row in range(first, last):
            end = context - (last - row) + 1
            begin = max(0, end - window) if window else 0
            for head in range(HEADS):
                own = head // (HEADS // KV_HEADS)
                weight = (keys[begin:end, own] @ query[row, head].double() / WIDTH**0.5).softmax(0)
                rows.append(weight @ values[begin:end, own])
    return torch.stack(rows).reshape(query.shape)


def written(pool: Pool, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """The keys and values of the step's own tokens."""
    spans = zip(batch.starts.tolist(), batch.starts.tolist()[1:], batch.contexts.tolist(), batch.tables, strict=False)
    parts = [(table, slice(context - last + first, context)) for first, last, context, table in spans]
    own = [
        torch.cat([side[0][table].flatten(0, 1)[seen] for table, seen in parts]) for side in (pool.keys, pool.values)
    ]
    return own[0], own[1]


@given(
    decodes=st.lists(st.integers(1, 40), max_size=4),
    prompts=st.lists(st.tuples(st.integers(2, 12), st.integers(0, 20)), max_size=3),
    window=st.sampled_from([0, 1, 5, 16]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
@example(decodes=[9, 9, 9], prompts=[(2, 3)], window=0, dtype=torch.float32)
@example(decodes=[], prompts=[(2, 3), (3, 2)], window=0, dtype=torch.float32)
@example(decodes=[], prompts=[(5, 0)], window=0, dtype=torch.float32)
@settings(max_examples=40, deadline=None)
def test_attention_is_its_definition(
    decodes: list[int], prompts: list[tuple[int, int]], window: int, dtype: torch.dtype
) -> None:
    lengths = [1] * len(decodes) + [length for length, _ in prompts]
    contexts = decodes + [length + before for length, before in prompts]
    if not contexts:
        return
    pool, tables = pool_of(contexts, dtype)
    batch = batch_of(lengths, contexts, tables)
    query = torch.randn(sum(lengths), HEADS, WIDTH, generator=torch.Generator().manual_seed(1)).to(dtype)
    attention = Attention(batch, pool, HEADS, (window,))
    found = attention(query, 0)
    assert found.dtype == dtype
    assert torch.equal(attention(query, 0, written(pool, batch)), found)
    near = 2e-6 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(found.double(), expected(query, pool, batch, window), rtol=near, atol=near)


@pytest.mark.parametrize("items", [1, 5])
def test_threads_share_the_work_and_change_nothing(items: int) -> None:
    contexts = [2 * WORTH_A_THREAD // items // KV_HEADS + 8 * item for item in range(items)]
    pool, tables = pool_of(contexts, torch.float32)
    batch = batch_of([1] * items, contexts, tables)
    query = torch.randn(items, HEADS, WIDTH)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = Attention(batch, pool, HEADS, (0,))
        torch.set_num_threads(2)
        shared = Attention(batch, pool, HEADS, (0,))
        assert (alone.threads, shared.threads) == (1, 2)
        assert torch.equal(alone(query, 0), shared(query, 0))
    finally:
        torch.set_num_threads(threads)


def test_extreme_scores_stay_finite() -> None:
    pool, tables = pool_of([9], torch.float32)
    batch = batch_of([1], [9], tables)
    query = torch.full((1, HEADS, WIDTH), 1e4)
    found = Attention(batch, pool, HEADS, (0,))(query, 0)
    torch.testing.assert_close(found.double(), expected(query, pool, batch, 0), rtol=1e-5, atol=1e-5)


def test_keep_writes_where_the_step_says() -> None:
    pool, tables = pool_of([8], torch.float32)
    batch = batch_of([3], [8], tables)._replace(write=torch.tensor([3, 0, 6]))
    key, value = torch.randn(2, 3, KV_HEADS, WIDTH)
    Attention(batch, pool, HEADS, (0,)).keep(key, value, 0)
    assert np.array_equal(pool.arrays(0)[0].reshape(-1, KV_HEADS, WIDTH)[[3, 0, 6]], key.numpy())
    assert torch.equal(pool.values[0].flatten(0, 1)[[3, 0, 6]], value)
