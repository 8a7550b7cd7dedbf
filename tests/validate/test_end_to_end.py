"""Served runs: which are read, and what is fitted of them is found again."""

from dataclasses import asdict

import numpy as np
import pytest
from made_sets import rows_of

from twofold.errors import SpecError
from twofold.validate.end_to_end import Setting, fitted, served_times
from twofold.validate.host_fit import Host
from twofold.validate.served import Served, read_served

ROW = {
    "silicon_data_source": "made; silicon_concurrency=4",
    "backend": "vllm",
    "model_path": "meta-llama/Llama-3.1-8B-Instruct",
    "system": "h100_sxm",
    "precision": "",
    "mode": "agg",
    "isl": 1024,
    "osl": 32,
    "tp_size": 1,
    "batch_size": 4,
    "silicon_ttft_ms": 50.0,
    "silicon_tpot_ms": 8.0,
}


def test_sick_runs_and_those_of_unknown_load_are_left_out(tmp_path):
    rows = [
        ROW,
        ROW | {"silicon_tpot_ms": 100.5},
        ROW | {"mode": "disagg"},
        ROW | {"silicon_data_source": "made"},
        ROW | {"precision": "fp8", "silicon_tpot_ms": 100.0},
    ]
    rows_of(tmp_path / "runs.csv", rows)
    found = read_served(tmp_path / "runs.csv")
    assert found[0] == Served("vllm", "Llama-3.1-8B", "H100", "bf16", 1, 4, 4, 1024, 32, 0.05, 0.008)
    assert [run.kind for run in found] == ["vllm, Llama-3.1-8B bf16", "vllm, Llama-3.1-8B fp8"]


def test_a_file_without_the_columns_is_one_line(tmp_path):
    rows_of(tmp_path / "runs.csv", [{"a": 1}])
    with pytest.raises(SpecError, match="accepted: a CSV file with"):
        read_served(tmp_path / "runs.csv")


def test_a_setting_is_found_again_from_runs_that_it_made(data):
    from twofold.cost.roofline import Roofline
    from twofold.cost.step_tables import read_steps

    cost = read_steps(data / "silicon", "vllm", Roofline())
    host = Host(2e-3, 2e-5, 5e-3, 3e-6, 1e-2)
    truth = Setting("mixed,prefill-tokens=2048", 5, host=host)
    shapes = [(prompt, clients) for prompt in (1024, 4096) for clients in (4, 16)]
    bare = [Served("vllm", "Llama-3.1-8B", "H100", "bf16", 1, c, c, p, 32, 0.0, 0.0) for p, c in shapes]
    runs = []
    for run in bare:
        ttft_s, tpot_s = served_times(run, truth, cost)
        runs.append(Served(*(*list(run.__dict__.values())[:-2], ttft_s, tpot_s)))
    found = fitted(runs, cost)
    assert (found.filling, found.rounds, found.empty) == (truth.filling, truth.rounds, truth.empty)
    found_s, true_s = (np.array(list(asdict(each).values())) for each in (found.host, host))
    np.testing.assert_allclose(found_s, true_s, rtol=0.05)
