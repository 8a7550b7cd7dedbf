import pytest
import torch

from twofold.engine.linear import Packed, Plain, dense


@pytest.mark.parametrize("rows", [1, 2, 33])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_way_is_a_matrix_product(rows: int, biased: bool, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(rows)
    given = torch.randn(rows, 24, generator=generator).to(dtype)
    weight = torch.randn(17, 24, generator=generator).to(dtype)
    bias = torch.randn(17, generator=generator).to(dtype) if biased else None
    exact = given.double() @ weight.double().T + (0 if bias is None else bias.double())
    near = 1e-5 if dtype == torch.float32 else 5e-2
    added = torch.randn(rows, 17, generator=generator).to(dtype)
    before = added.clone()
    for layer in (dense(weight, bias), Plain(weight, bias), Packed(weight, bias)):
        found, more = layer(given), layer(given, added)
        assert found.dtype == more.dtype == dtype
        torch.testing.assert_close(found.double(), exact, rtol=near, atol=near)
        torch.testing.assert_close(more.double(), exact + added.double(), rtol=near, atol=near)
    assert torch.equal(added, before)


def test_the_weight_is_a_copy() -> None:
    weight = torch.ones(3, 4)
    layers = [Packed(weight, None), Plain(weight, None)]
    weight.zero_()
    assert all((layer(torch.ones(1, 4)) == 4.0).all() for layer in layers)
