"""Served runs and points again, from kernel tables: where those are not installed, the extra is named."""

from importlib.util import find_spec

import pytest

from twofold.errors import SpecError
from twofold.validate import kernels_end_to_end, kernels_h200
from twofold.validate.served import Served

needs_tables = pytest.mark.skipif(
    find_spec("aiconfigurator_core") is None, reason="the kernel tables are not installed"
)


@pytest.mark.parametrize("module", [kernels_end_to_end, kernels_h200])
def test_without_the_tables_the_extra_is_named(data, module, monkeypatch):
    monkeypatch.setattr("twofold.cost.silicon.kernels.PACKAGE", "no_such_package")
    with pytest.raises(SpecError, match=r"twofold\[silicon\]"):
        module.predict("kernels", data / "silicon")


@needs_tables
def test_the_points_of_an_h200_are_met_and_are_more_than_whole_steps_reach(data):
    found = kernels_h200.predict("kernels.h200", data / "silicon")
    prefill, decode, *_ = found.lines
    assert (prefill.met, decode.met) == (True, True)
    assert "error of 19" in decode.what


@needs_tables
def test_only_dense_models_with_measured_kernels_are_predicted():
    runs = [
        Served("vllm", model, "H100", "bf16", tp, 4, 4, 1024, 32, 0.05, 0.008)
        for model, tp in (("Llama-3.1-8B", 1), ("Llama-3.1-8B", 3), ("Qwen3-30B-A3B", 1), ("nobody's", 1))
    ]
    costs = kernels_end_to_end.cost_of("vllm", runs)
    assert [str(key) for key in costs.rows] == ["Llama-3.1-8B bf16 on H100 tp1"]
