import pytest
import torch

from twofold.engine.pool import Pool
from twofold.errors import SpecError
from twofold.spec.model import Model

MODEL = Model(name="m", layers=3, hidden=64, heads=4, kv_heads=2, head_dim=16, ffn=8, vocab=9)


@pytest.mark.parametrize(("dtype", "size"), [("fp32", 4), ("bf16", 2)])
def test_a_pool_takes_the_blocks_that_fit(dtype: str, size: int) -> None:
    block = 2 * 3 * 8 * 2 * 16 * size
    assert Pool.block_bytes(MODEL, dtype, 8) == block
    pool = Pool.sized(MODEL, dtype, memory_bytes=5 * block + block - 1, block_tokens=8)
    assert tuple(pool.keys.shape) == tuple(pool.values.shape) == (3, 5, 8, 2, 16)
    assert (pool.blocks, pool.block_tokens, pool.nbytes) == (5, 8, 5 * block)
    assert Pool.sized(MODEL, pool.keys.dtype, blocks=7).blocks == 7


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_all_views_are_one_memory(dtype: str) -> None:
    pool = Pool.sized(MODEL, dtype, blocks=2, block_tokens=4)
    pool.keys.zero_()
    pool.values.zero_()
    keys, values = pool.flat(1)
    keys[5], values[6] = 1.0, 2.0
    assert (pool.keys[1, 1, 1] == 1.0).all()
    assert (pool.values[1, 1, 2] == 2.0).all()
    found = torch.from_numpy(pool.arrays(1)[0])
    assert torch.equal(found if dtype == "fp32" else found.view(torch.bfloat16), pool.keys[1])
    assert pool.keys.count_nonzero() == pool.values.count_nonzero() == 2 * 16


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"blocks": 2, "memory_bytes": 9}, "blocks"),
        ({}, "blocks"),
        ({"memory_bytes": 100}, "memory_bytes"),
        ({"dtype": "fp8", "blocks": 1}, "dtype"),
        ({"dtype": torch.float16, "blocks": 1}, "dtype"),
    ],
)
def test_bad_sizes_are_refused(given: dict[str, object], field: str) -> None:
    with pytest.raises(SpecError) as caught:
        Pool.sized(MODEL, **{"dtype": "fp32", **given})  # type: ignore[arg-type]
    assert caught.value.field == field


def test_spare_blocks_are_nobodys_and_lie_behind_the_others() -> None:
    keys, values = torch.zeros(2, 3, 5, 4, 2, 16)
    pool = Pool(keys, values, spare=1)
    assert (pool.blocks, pool.spare, tuple(pool.keys.shape)) == (4, 1, (3, 4, 4, 2, 16))
    pool.flat(2)[0][pool.blocks * pool.block_tokens] = 1.0
    assert pool.keys.count_nonzero() == 0
    assert pool.pages(2)[0][4, 0].count_nonzero() == pool.pages(2)[0].count_nonzero() == 32
    assert pool.nbytes == pool.blocks * 2 * 3 * 4 * 2 * 16 * 4
