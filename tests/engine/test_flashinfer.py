"""Attention by FlashInfer's wrappers, whose arithmetic is here that of their documentation."""

import sys

import fake_flashinfer
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_attention import HEADS, KV_HEADS, WIDTH, batch_of, expected, pool_of

from twofold.engine import attending
from twofold.engine.attending import attention_of
from twofold.engine.attention import Attention
from twofold.engine.flashinfer import Kernels, Shape, fits, pages_of, shape_of
from twofold.engine.pool import Pool
from twofold.errors import SpecError

CUDA = torch.device("cuda:0")


@pytest.fixture(autouse=True)
def _there(monkeypatch):
    fake_flashinfer.install(monkeypatch)
    attending.flash.cache_clear()
    yield
    attending.flash.cache_clear()


def kernels_for(pool: Pool) -> Kernels:
    return Kernels(shape_of(pool, HEADS))


@given(
    decodes=st.lists(st.integers(1, 20), max_size=3),
    prompts=st.lists(st.tuples(st.integers(2, 9), st.integers(0, 12)), max_size=3),
    window=st.sampled_from([0, 1, 5]),
)
@example(decodes=[4, 5, 8], prompts=[], window=0)
@settings(max_examples=30, deadline=None)
def test_attention_is_its_definition(decodes: list[int], prompts: list[tuple[int, int]], window: int) -> None:
    """For contexts that end within a block and with it, decodes and chunks, each window by a plan of its own."""
    lengths = [1] * len(decodes) + [length for length, _ in prompts]
    contexts = decodes + [length + before for length, before in prompts]
    if not contexts:
        return
    pool, tables = pool_of(contexts, torch.float32)
    both = Pool(*(side.repeat(2, 1, 1, 1, 1) for side in (pool.keys, pool.values)))
    batch = batch_of(lengths, contexts, tables)
    query = torch.randn(sum(lengths), HEADS, WIDTH, generator=torch.Generator().manual_seed(1))
    found = kernels_for(both).attention(batch, both, (0, window))
    for layer, seen in enumerate((0, window)):
        torch.testing.assert_close(
            found(query, layer).double(), expected(query, pool, batch, seen), rtol=1e-5, atol=1e-5
        )


def test_a_step_is_planned_once_for_all_of_its_layers() -> None:
    pool, tables = pool_of([9, 7], torch.float32)
    kernels, batch = kernels_for(pool), batch_of([1, 3], [9, 7], tables)
    first = kernels.attention(batch, pool, (0,))
    assert kernels.attention(batch, pool, (0,)) is first
    assert (kernels._decodes[0].plans, kernels._chunks[0].plans) == (1, 1)
    assert kernels.attention(batch._replace(), pool, (0,)) is not first


def test_lanes_share_neither_plan_nor_scratch() -> None:
    """A prompt whose layers are under way keeps its plan while decodes come and go."""
    pool, tables = pool_of([9, 7], torch.float32)
    kernels = kernels_for(pool)
    prompt, decode = batch_of([7], [7], tables[1:]), batch_of([1], [9], tables[:1])
    under_way = kernels.attention(prompt, pool, (0,))
    for _ in range(3):
        kernels.attention(decode._replace(), pool, (0,))
    assert kernels.attention(prompt, pool, (0,)) is under_way
    assert (kernels._chunks[0].plans, kernels._decodes[0].plans) == (1, 3)
    assert kernels._decodes[0].scratch.data_ptr() != kernels._chunks[0].scratch.data_ptr()


def test_what_is_kept_is_where_the_step_says() -> None:
    pool, tables = pool_of([8], torch.float32)
    batch = batch_of([3], [8], tables)._replace(write=torch.tensor([3, 0, 6]))
    key, value = torch.randn(2, 3, KV_HEADS, WIDTH)
    kernels_for(pool).attention(batch, pool, (0,)).keep(key, value, 0)
    assert torch.equal(pool.keys[0].flatten(0, 1)[[3, 0, 6]], key)
    assert torch.equal(pool.values[0].flatten(0, 1)[[3, 0, 6]], value)


def test_pages_are_those_of_each_item_in_order() -> None:
    host = batch_of([1, 1, 2], [4, 5, 1], torch.tensor([[7, 0], [3, 9], [5, 0]])).on_host()
    pages = pages_of(host, 0, 3, 4)
    assert [part.tolist() for part in pages] == [[0, 1, 3, 4], [7, 3, 9, 5], [4, 1, 1]]
    assert [part.tolist() for part in pages_of(host, 1, 2, 4)] == [[0, 2], [3, 9], [1]]


@pytest.mark.parametrize(
    ("changed", "there"),
    [
        ({}, True),
        ({"dtype": torch.float32}, False),
        ({"width": 80}, False),
        ({"device": torch.device("cpu")}, False),
    ],
)
def test_where_its_kernels_fit(changed: dict, there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = Shape(CUDA, torch.bfloat16, 32, 8, 128, 16)._replace(**changed)
    assert fits(shape) == there
    assert (attending.flash(shape) is not None) == there
    attending.flash.cache_clear()
    monkeypatch.setattr(attending, "has_flashinfer", lambda: False)
    assert attending.flash(shape) is None


def test_a_cpu_keeps_its_own_attention() -> None:
    pool, tables = pool_of([9], torch.bfloat16)
    assert type(attention_of(batch_of([1], [9], tables), pool, HEADS, (0,))) is Attention


def test_a_library_that_does_not_load_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flashinfer", None)
    pool, _ = pool_of([4], torch.float32)
    with pytest.raises(SpecError, match="does not load") as refusal:
        Kernels(shape_of(pool, HEADS)).decoder()
    assert str(refusal.value).count("\n") == 0


@pytest.mark.parametrize(("heads", "cores"), [(KV_HEADS, False), (3 * KV_HEADS, False), (4 * KV_HEADS, True)])
def test_tensor_cores_serve_many_queries_a_head(heads: int, cores: bool) -> None:
    pool, _ = pool_of([4], torch.float32)
    assert Kernels(shape_of(pool, heads)).decoder().tensor_cores == cores
