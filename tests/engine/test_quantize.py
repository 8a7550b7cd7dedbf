from pathlib import Path

import pytest
import torch

from twofold.engine.quantize import Int8, check_quantize, linear_of, multiplies_bytes
from twofold.errors import SpecError

needs_bytes = pytest.mark.skipif(not multiplies_bytes(), reason="this CPU has no 8-bit products")


def made(rows: int, inputs: int, outputs: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(rows + inputs)
    return tuple(torch.randn(shape, generator=generator) for shape in ((rows, inputs), (outputs, inputs), (outputs,)))


@needs_bytes
@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(1, 64, 48), (7, 33, 20), (64, 96, 128)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_error_is_that_of_rounding(rows: int, inputs: int, outputs: int, dtype: torch.dtype) -> None:
    given, weight, bias = made(rows, inputs, outputs)
    given = given.to(dtype)
    found = Int8(weight, bias)(given)
    assert found.dtype == dtype
    exact = given.double() @ weight.double().T + bias
    half = given.double().abs().amax(1, keepdim=True) / 254, weight.double().abs().amax(1) / 254
    bound = half[0] * weight.double().abs().sum(1) + half[1] * given.double().abs().sum(1, keepdim=True)
    bound = bound + inputs * half[0] * half[1] + 1e-5 + (dtype == torch.bfloat16) * 0.02 * (1 + exact.abs())
    assert ((found.double() - exact).abs() <= bound).all()


@needs_bytes
def test_whole_numbers_are_exact() -> None:
    generator = torch.Generator().manual_seed(1)
    given, weight = (torch.randint(-127, 128, (5, 40), generator=generator).float() for _ in range(2))
    given[:, 0], weight[:, 0] = 127, -127
    assert torch.allclose(Int8(weight, None)(given), given @ weight.T, rtol=1e-6)


@needs_bytes
def test_a_row_does_not_depend_on_its_mates() -> None:
    given, weight, bias = made(9, 64, 32)
    given[3] *= 1000
    layer = Int8(weight, bias)
    for row in range(9):
        assert torch.equal(layer(given[row : row + 1])[0], layer(given)[row])


@needs_bytes
def test_zeros_stay_zeros() -> None:
    assert torch.equal(Int8(torch.zeros(4, 8), None)(torch.zeros(2, 8)), torch.zeros(2, 4))


def test_without_quantising_the_dtype_stays() -> None:
    given, weight, bias = made(3, 16, 8)
    torch.testing.assert_close(linear_of(weight, bias, None)(given), given @ weight.T + bias)


@pytest.mark.parametrize(("name", "device"), [("int4", "cpu"), ("int8", "cuda")])
def test_what_cannot_be_done_is_refused(name: str, device: str) -> None:
    with pytest.raises(SpecError) as caught:
        check_quantize(name, torch.device(device))
    assert caught.value.field == "quantize"


def test_a_cpu_without_byte_products_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twofold.engine.quantize.multiplies_bytes", lambda: False)
    with pytest.raises(SpecError, match="VNNI"):
        check_quantize("int8", torch.device("cpu"))
    check_quantize(None, torch.device("cpu"))


@needs_bytes
def test_a_model_in_8_bits_is_near(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tiny import Run, reference, saved

    from twofold.engine.load import load

    folder = saved(reference("llama", initializer_range=0.05), tmp_path)
    prompt = list(range(5, 60))
    exact, small = (Run(load(folder, quantize=name).decoder).step((0, prompt, 0)) for name in (None, "int8"))
    assert not torch.equal(exact, small)
    assert (exact - small).abs().max() < 0.1 * exact.abs().max()
    assert load(folder, quantize="int8").model.weight_dtype == "int8"
