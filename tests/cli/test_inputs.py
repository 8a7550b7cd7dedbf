import json
from pathlib import Path

import pytest

from twofold.cli.inputs import read_roofline, read_scenario
from twofold.cost.fitted import Fitted
from twofold.cost.measured import Measured
from twofold.cost.roofline import Roofline
from twofold.errors import SpecError
from twofold.spec import catalog

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


FIT = """engine,model,tp,phase,a_const_ms,b_per_token_ms,c_ms,large_bs_threshold,hardware
one,llama-3-8b,1,prefill,20,0.1,0,,H100
one,llama-3-8b,1,decoding_smallbs,15,6e-4,0.04,,H100
one,llama-3-8b,1,decoding_largebs,7,5e-4,0.15,95,H100
two,llama-3-8b,1,prefill,10,0.1,0,,H100
two,llama-3-8b,1,decoding_smallbs,15,6e-4,0.04,,H100
two,llama-3-8b,1,decoding_largebs,7,5e-4,0.15,95,H100
"""


@pytest.fixture
def fit_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fit.csv").write_text(FIT)
    return "fit.csv"


def test_without_a_file_the_cost_is_the_roofline_with_its_constants() -> None:
    assert read_roofline(read_scenario("sample", ["cost.flop_efficiency=0.5"])) == Roofline(flop_efficiency=0.5)


def test_a_constant_that_is_a_number_of_tokens_is_whole() -> None:
    assert read_roofline(read_scenario("sample", ["cost.graph_tokens=512"])) == Roofline(graph_tokens=512)
    with pytest.raises(SpecError, match=r"cost\.graph_tokens"):
        read_roofline(read_scenario("sample", ["cost.graph_tokens=1.5"]))


def test_a_cost_file_is_read_with_its_engine_and_the_constants_that_it_lacks(fit_file: str) -> None:
    settings = ["cost.engine=two", "cost.host_bytes_per_s=1e9"]
    costs = read_roofline(read_scenario("sample", settings, cost=fit_file))
    assert isinstance(costs, Fitted)
    assert [row.prompt[0].base_s for row in costs.rows.values()] == [0.01]
    assert costs.host_bytes_per_s == 1e9


def test_a_cost_file_lies_by_the_scenario_and_a_flag_by_the_user(fit_file: str, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "scenario.yaml").write_text(SCENARIO + "cost: {file: own.csv, engine: one}\n")
    (folder / "own.csv").write_text(FIT.replace(",20,", ",30,"))
    path = str(folder / "scenario.yaml")
    for flags, base_s in (({}, 0.03), ({"cost": fit_file}, 0.02)):
        costs = read_roofline(read_scenario(path, None, **flags))
        assert isinstance(costs, Fitted)
        assert next(iter(costs.rows.values())).prompt[0].base_s == base_s


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        (["cost.engine=one", "cost.flop_efficiency=0.5"], "flop_efficiency"),
        ([], "engine"),
        (["cost.engine=three"], "engine"),
        (["cost.engine=one", "cost.speed=3"], "speed"),
    ],
)
def test_what_has_no_effect_beside_a_cost_file_is_refused(fit_file: str, settings: list[str], field: str) -> None:
    with pytest.raises(SpecError, match=rf"cost\.{field}"):
        read_roofline(read_scenario("sample", settings, cost=fit_file))


def test_a_profile_brings_its_model_and_device(profile_file: str) -> None:
    scenario = read_scenario("sample", None, cost=profile_file, deployment="1B")
    deployment = scenario.read_deployment()
    assert (deployment.model.name, deployment.device.name) == ("Llama-3-8B", "H100")
    other = read_scenario("sample", None, cost=profile_file, deployment="1B", device="A100")
    costs = read_roofline(other)
    with pytest.raises(SpecError, match="device"):
        costs.record(catalog.model("llama-3-8b"), other.read_deployment().device)


def test_the_host_of_measurements_can_be_set_and_that_of_whole_steps_cannot(profile_file: str, fit_file: str) -> None:
    costs = read_roofline(read_scenario("sample", ["cost.step_s=0.002"], cost=profile_file))
    assert isinstance(costs, Measured)
    assert [row.step_s for row in costs.rows.values()] == [0.002]
    with pytest.raises(SpecError, match=r"cost\.step_s"):
        read_roofline(read_scenario("sample", ["cost.step_s=0.002", "cost.engine=one"], cost=fit_file))


def test_the_name_of_a_profiled_model_means_it_in_the_dtypes_that_were_measured(
    profile_file: str, tmp_path: Path
) -> None:
    content = json.loads(Path(profile_file).read_text())
    content["model"] |= {"name": "my-llama", "weight_dtype": "fp32"}
    Path(profile_file).write_text(json.dumps(content))
    named = {
        name: read_scenario("sample", None, cost=profile_file, model=name) for name in ("llama-3-8b", "llama-2-7b")
    }
    assert catalog.model(named["llama-3-8b"].model).weight_dtype == "fp32"
    assert named["llama-2-7b"].model == "llama-2-7b"
