"""The real tables, where they are installed: put together as others put them together, and for many replicas."""

import csv
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from twofold.cost.roofline import step_seconds
from twofold.cost.tables import read_costs
from twofold.spec import catalog

STEPS = Path(__file__).parents[4] / "shared" / "data" / "silicon"
ENGINES = ("vllm", "sglang", "trtllm")
REPLICAS = (("llama-3.1-8b", 1), ("llama-3.1-70b", 4), ("qwen3-32b", 2), ("qwen2.5-7b", 2), ("qwen3-30b-a3b", 4))
ROWS = 40
"""Of each file, evenly spread."""

pytestmark = pytest.mark.skipif(find_spec("aiconfigurator_core") is None, reason="the kernel tables are not installed")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("device", ["A100", "H100", "H200", "B200", "GB200"])
def test_replicas_of_dense_models_and_of_experts_have_times(engine, device):
    costs, spec = read_costs(f"silicon:{engine}"), catalog.device(device)
    known = [name for name, tp in REPLICAS if costs.knows(catalog.model(name), spec, tp)]
    assert {"llama-3.1-8b", "llama-3.1-70b", "qwen3-32b", "qwen2.5-7b"} <= set(known)


@pytest.mark.parametrize("name", ["steps_decode.csv", "steps_prefill.csv"])
def test_steps_are_those_that_the_package_itself_puts_together(name):
    if not STEPS.is_dir():
        pytest.skip("the shared data are not here")
    with (STEPS / name).open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["latency_ms"] and row["fits_hbm"] == "1"]
    errors = [
        1e3 * _seconds(row, "prefill" in name) / float(row["latency_ms"]) - 1 for row in rows[:: len(rows) // ROWS]
    ]
    assert np.abs(errors).mean() < 0.04
    assert np.abs(np.mean(errors)) < 0.03


def _seconds(row, prefill):
    dtype = row["dtype"].partition("(")[0]
    model = catalog.model(row["model"]).replaced(weight_dtype=dtype, kv_dtype=dtype)
    count, keys = int(row["batch"]), int(row["isl_or_ctx"])
    step = {"prompts": [(0, keys)] * count} if prefill else {"decode_contexts": [keys] * count}
    costs = read_costs(f"silicon:{row['backend']}")
    return step_seconds(model, catalog.device(row["system"]), tp=int(row["tp"]), roofline=costs, **step)
