"""The command on a real, tiny model."""

import json
import os
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers")

from tiny import reference, saved

from twofold.cli.main import main
from twofold.cli.profile import FAR_OFF
from twofold.engine.profile_lanes import divisible, splits
from twofold.spec.device import this_cpu


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return saved(reference("llama"), tmp_path / "model")


def test_the_command_writes_a_cost_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, threads = folder.parent / "tiny.json", torch.get_num_threads()
    try:
        code = main(["profile", str(folder), "--quick", "--threads", "1", "--memory", "64MB", "-o", str(out)])
    finally:
        torch.set_num_threads(threads)
    shown = capsys.readouterr()
    assert code == 0
    assert shown.err in ("", f"twofold: {FAR_OFF}\n")
    assert f"--cost {out}" in shown.out
    content = json.loads(out.read_text())
    assert (content["model"]["layers"], content["model"]["weight_dtype"]) == (3, "fp32")
    assert content["device"]["name"] == "this-cpu"
    assert "model, fp32, 1 threads" in content["source"]
    (entry,) = content["entries"]
    assert set(entry["residuals"]) == {"prompt", "decode", "mixed"}
    assert 0 < entry["step_s"] < entry["step_s"] + entry["dense"][0][1] + entry["rows"][0][1]
    assert max(chunk for chunk, _, _ in entry["prompt_attention"]) == 224
    units = this_cpu().units
    divided = [(each["prefill_units"], each["decode_units"]) for each in entry["splits"]]
    assert divided == (splits(units) if divisible(units) else [])
    assert sorted(os.listdir(folder.parent)) == ["model", "tiny.json"]
