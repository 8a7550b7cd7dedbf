import pytest
import torch

from twofold.engine.blocked import BLOCK, NOWHERE, READABLE, accumulate, blocked, few_rows
from twofold.engine.linear import Packed

pytestmark = pytest.mark.skipif(not READABLE, reason="blocks are read by compiled code, on POSIX")


def in_blocks(weight: torch.Tensor) -> torch.Tensor:
    return weight.reshape(-1, BLOCK, weight.shape[1]).transpose(1, 2).contiguous()


@pytest.mark.parametrize("rows", [*range(1, 10), 13])
def test_products_of_some_blocks_are_added(rows: int) -> None:
    weight, given = torch.randn(4 * BLOCK, 37), torch.randn(rows, 37)
    blocks, out = in_blocks(weight), torch.full((rows, 4 * BLOCK), 2.0)
    accumulate(blocks.data_ptr(), given.numpy(), out.numpy(), 1, 3)
    expected = 2.0 + given.double() @ weight.double().T
    torch.testing.assert_close(out[:, BLOCK : 3 * BLOCK].double(), expected[:, BLOCK : 3 * BLOCK], rtol=1e-5, atol=1e-5)
    assert (out[:, :BLOCK] == 2.0).all()
    assert (out[:, 3 * BLOCK :] == 2.0).all()


@pytest.mark.parametrize("biased", [False, True])
def test_few_rows_are_a_matrix_product(biased: bool) -> None:
    weight, given = torch.randn(2 * BLOCK, 24), torch.randn(3, 24)
    bias = torch.randn(2 * BLOCK) if biased else None
    blocks = in_blocks(weight)
    found = few_rows(given, blocks.data_ptr(), 2 * BLOCK, bias)
    torch.testing.assert_close(found, torch.nn.functional.linear(given, weight, bias), rtol=1e-5, atol=1e-5)


def test_another_layout_is_not_taken_for_blocks() -> None:
    weight = torch.randn(2 * BLOCK, 24)
    assert blocked(weight, weight) == NOWHERE
    assert blocked(Packed(weight[:70], None).weight, weight[:70]) == NOWHERE
    packed = Packed(weight, None).weight
    assert blocked(packed, weight + 1.0) == NOWHERE
