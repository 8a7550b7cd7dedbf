"""The policy that docs/add-a-policy.md walks through: shown as it is shipped, short, and doing what it says."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

import twofold

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "decode_burst.py"
PHASES = ["queued_s", "prefill_s", "stall_s", "transfer_s", "decode_wait_s", "decode_s"]


@pytest.fixture(scope="module", autouse=True)
def registered() -> None:
    spec = importlib.util.spec_from_file_location("decode_burst", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["decode_burst"] = module
    spec.loader.exec_module(module)


def run(text: str, step_by_step: bool = False) -> twofold.Result:
    workload = twofold.read_workload("sample").at_rate(80)
    where = twofold.deployment(text, model="llama-3-8b", device="H100")
    return twofold.simulate(workload, where, step_by_step=step_by_step)


def test_the_page_shows_the_file_that_is_shipped() -> None:
    page = (ROOT / "docs" / "add-a-policy.md").read_text(encoding="utf-8")
    shown = re.search(r"^```python title=decode_burst\.py\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert shown is not None
    assert shown[1] == EXAMPLE.read_text(encoding="utf-8")
    assert len(shown[1].splitlines()) <= 35


def test_a_burst_shortens_the_worst_mean_gaps_and_lets_prompts_wait() -> None:
    burst, plain = run("4B,policy=decode-burst").summary(), run("4B,prefill-first").summary()
    assert burst["completed"] == burst["requests"]
    assert burst["tpot_s"]["p99"] < 0.8 * plain["tpot_s"]["p99"]
    assert burst["ttft_s"]["p99"] > plain["ttft_s"]["p99"]


def test_running_ahead_changes_nothing() -> None:
    ahead = run("4B,policy=decode-burst").requests
    each = run("4B,policy=decode-burst", step_by_step=True).requests
    # Seconds in a phase are sums over runs or over steps, which round differently.
    assert ahead.drop(PHASES).equals(each.drop(PHASES))
    for phase in PHASES:
        assert ahead[phase].to_numpy() == pytest.approx(each[phase].to_numpy(), abs=1e-9)
