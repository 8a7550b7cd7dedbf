import pytest
import torch
from torch.nn.functional import rms_norm, silu

from twofold.engine import pointwise
from twofold.engine.pointwise import gated, normed

CLOSE = {torch.float32: {"rtol": 1e-5, "atol": 1e-6}, torch.bfloat16: {"rtol": 2e-2, "atol": 2e-2}}
DTYPES = pytest.mark.parametrize("dtype", CLOSE)
SHARED = pytest.mark.parametrize("shared", [False, True])


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch, shared: bool) -> None:
    monkeypatch.setattr(pointwise, "threads_for", lambda work, worth: 3 if shared else 1)


@SHARED
@DTYPES
@pytest.mark.usefixtures("threads")
def test_the_norm_is_its_definition(dtype: torch.dtype) -> None:
    rows, weight = (10 * torch.randn(7, 3, 16)).to(dtype), torch.randn(16).to(dtype)
    expected = rms_norm(rows.double(), (16,), weight.double(), 1e-5)
    torch.testing.assert_close(normed(rows, weight, 1e-5).double(), expected, **CLOSE[dtype])


@SHARED
@DTYPES
@pytest.mark.usefixtures("threads")
def test_the_gate_is_its_definition(dtype: torch.dtype) -> None:
    both = (5 * torch.randn(7, 2 * 24)).to(dtype)
    both[0, :4] = torch.tensor([-100.0, 100.0, -1e4, 0.0]).to(dtype)
    gate, up = both.double().chunk(2, -1)
    torch.testing.assert_close(gated(both).double(), silu(gate) * up, **CLOSE[dtype])
