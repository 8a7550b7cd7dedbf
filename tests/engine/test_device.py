import pytest
import torch

from twofold.engine import on_cuda
from twofold.engine.device import device_of
from twofold.errors import SpecError


def test_a_cpu_is_always_there() -> None:
    assert device_of("cpu") == device_of(torch.device("cpu")) == torch.device("cpu")


@pytest.mark.parametrize("name", ["mps", "nothing", "cuda:x", "meta"])
def test_what_the_engine_does_not_run_on_is_one_line(name: str) -> None:
    with pytest.raises(SpecError, match="accepted: cpu, or cuda") as refusal:
        device_of(name)
    assert str(refusal.value).count("\n") == 0


@pytest.mark.parametrize(
    ("built_for", "count", "name", "words"),
    [
        (None, 0, "cuda", "built without CUDA"),
        ("13.0", 0, "cuda", "torch sees 0"),
        ("13.0", 1, "cuda:1", "torch sees 1"),
    ],
)
def test_a_cuda_device_that_is_not_there(
    built_for: str | None, count: int, name: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.version, "cuda", built_for)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    with pytest.raises(SpecError, match=words):
        device_of(name)


def test_a_cuda_device_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert device_of("cuda:1") == torch.device("cuda", 1)


@pytest.mark.parametrize(
    ("there", "dtype", "policy", "words"),
    [
        (True, "bf16", "chunked", "attention by FlashInfer, decode steps as CUDA graphs; "),
        (True, "fp32", "chunked", "torch over gathered blocks (FlashInfer computes bf16 only); "),
        (False, "bf16", "multiplexed", 'pip install "twofold[flashinfer]"), lanes on green contexts; '),
    ],
)
def test_what_runs_there_is_told_with_that_it_is_unverified(
    there: bool, dtype: str, policy: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_cuda, "has_flashinfer", lambda: there)
    line = on_cuda.on_cuda(dtype, policy)
    assert words in line
    assert line.endswith(on_cuda.UNVERIFIED)
    assert "\n" not in line
