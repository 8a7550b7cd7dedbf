"""The real tables, where they are installed: put together as others put them together, and for many replicas."""

import csv
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.cost.roofline import Roofline, step_seconds
from twofold.cost.tables import read_costs
from twofold.simulate.run import simulate
from twofold.spec import catalog
from twofold.spec.notation import parse_deployment
from twofold.spec.workload import Workload

STEPS = Path(__file__).parents[4] / "shared" / "data" / "silicon"
ENGINES = ("vllm", "sglang", "trtllm")
REPLICAS = (("llama-3.1-8b", 1), ("llama-3.1-70b", 4), ("qwen3-32b", 2), ("qwen2.5-7b", 2), ("qwen3-30b-a3b", 4))
ROWS = 40
"""Of each file, evenly spread."""

DEEPSEEK, DECODES, PROMPTS = "deepseek-v3", (1, 16, 64, 256), (64, 512, 4096, 16384)
PEAK = Roofline(flop_efficiency=1.0, byte_efficiency=1.0, step_overhead_s=0.0)
"""What the data sheets say: no step is faster."""

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


@pytest.mark.parametrize("device", ["H100", "H200", "B200", "GB200"])
@pytest.mark.parametrize("engine", ENGINES)
def test_latent_attention_and_whole_experts_have_times(engine, device):
    costs, spec, model = read_costs(f"silicon:{engine}"), catalog.device(device), catalog.model(DEEPSEEK)
    for kv_dtype in ("bf16", "fp8"):
        assert costs.knows(model.replaced(kv_dtype=kv_dtype), spec, 4)
    spread = costs.record(model, spec, tp=4, expert_parallel=True)[0]
    cut = costs.record(model, spec, tp=4)[0]
    assert spread.dense_s[0] != cut.dense_s[0]


@settings(max_examples=25, deadline=None)
@given(
    engine=st.sampled_from(ENGINES),
    device=st.sampled_from(("H100", "H200", "B200")),
    tp=st.sampled_from((4, 8)),
    kv_dtype=st.sampled_from(("bf16", "fp8")),
    prompt=st.sampled_from((0, *PROMPTS)),
    decodes=st.sampled_from(DECODES),
    context=st.integers(128, 32768),
)
def test_no_step_of_kernels_is_faster_than_the_data_sheet(engine, device, tp, kv_dtype, prompt, decodes, context):
    model, spec = catalog.model(DEEPSEEK).replaced(kv_dtype=kv_dtype), catalog.device(device)
    step = {"tp": tp, "prompts": [(0, prompt)] * bool(prompt), "decode_contexts": [context] * decodes}
    least, found = (
        step_seconds(model, spec, roofline=costs, **step) for costs in (PEAK, read_costs(f"silicon:{engine}"))
    )
    assert found >= least


def test_served_runs_of_whole_experts_in_blocks_take_the_time_of_their_kernels():
    """TensorRT-LLM on 4 and 8 H100, in a closed loop; nothing is fitted, and the host takes no time."""
    if not STEPS.is_dir():
        pytest.skip("the shared data are not here")
    with (STEPS / "endtoend_h100.csv").open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if "Qwen3-235B-A22B" in row["model_path"] and row["mode"] == "agg"]
    spread = [row for row in rows if row["moe_ep_size"] == row["tp_size"] and row["gemm_quant_mode"] == "fp8_block"]
    assert len(spread) > 100
    errors = np.array([_tpot_ms(row) / float(row["silicon_tpot_ms"]) - 1 for row in spread[::6]])
    assert np.abs(errors).mean() < 0.12
    assert abs(errors.mean()) < 0.06


def _tpot_ms(row):
    found = re.search(r"silicon_concurrency=(\d+)", row["silicon_data_source"])
    clients = int(found[1])
    count = 5 * clients
    prompts, outputs = (np.full(count, int(row[name]), dtype=np.int32) for name in ("isl", "osl"))
    model = catalog.model("qwen3-235b-a22b").replaced(weight_dtype="fp8", kv_dtype="fp8")
    shape = f"1B,tp{row['tp_size']},ep,mixed,prefill-tokens=1,batch={row['batch_size']},async"
    deployment = parse_deployment(shape, model=model, device="H100")
    workload, costs = Workload("closed loop", np.zeros(count), prompts, outputs), read_costs("silicon:trtllm+fp8_block")
    return 1e3 * float(simulate(workload, deployment, roofline=costs, concurrency=clients).tpot_s.mean())
