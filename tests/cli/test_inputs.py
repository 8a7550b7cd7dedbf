from pathlib import Path

import pytest

from twofold.cli.inputs import read_scenario
from twofold.errors import SpecError

SCENARIO = """
workload: {rate: 5, requests: 40, prompt: "fixed:100", output: "fixed:10", arrivals: constant}
model: llama-3-8b
device: H100
deployment: 2B
slo: ttft<=1s
"""


@pytest.fixture
def scenario_file(tmp_path: Path) -> str:
    path = tmp_path / "scenario.yaml"
    path.write_text(SCENARIO)
    return str(path)


def test_flags_make_a_workload() -> None:
    made = read_scenario(None, None, rate=4.0, requests=20, prompt="fixed:7", output=None, seed=3).read_workload()
    assert len(made) == 20
    assert set(made.prompt_tokens) == {7}


def test_flags_cut_and_time_a_trace() -> None:
    cut = read_scenario("sample", None, rate=3.0, requests=50).read_workload()
    assert len(cut) == 50
    assert cut.rate == pytest.approx(3.0)


def test_flags_override_a_scenario_file(scenario_file: str) -> None:
    scenario = read_scenario(scenario_file, None, rate=8.0, output="fixed:3", deployment="1B,mixed")
    made = scenario.read_workload()
    assert len(made) == 40
    assert made.rate == pytest.approx(8.0)
    assert set(made.output_tokens) == {3}
    assert str(scenario.read_deployment()) == "1B,mixed"


def test_settings_come_last(scenario_file: str) -> None:
    scenario = read_scenario(scenario_file, ["workload.requests=9", "slo=tpot<=30ms"], requests=5)
    assert len(scenario.read_workload()) == 9
    assert str(scenario.read_slo()) == "tpot<=30ms @90%"


@pytest.mark.parametrize("flags", [{}, {"rate": 3.0}, {"requests": 5}, {"prompt": "fixed:3"}])
def test_no_trace_needs_rate_and_requests(flags: dict[str, object]) -> None:
    with pytest.raises(SpecError, match="--rate and --requests"):
        read_scenario(None, None, **flags)


@pytest.mark.parametrize("flag", ["prompt", "output", "arrivals"])
def test_a_trace_refuses_flags_of_made_requests(flag: str) -> None:
    with pytest.raises(SpecError, match=f"--{flag}"):
        read_scenario("sample", None, **{flag: "poisson"})
