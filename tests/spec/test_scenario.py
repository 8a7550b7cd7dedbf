from pathlib import Path
from typing import Any

import pytest

from twofold.errors import SpecError
from twofold.spec import catalog
from twofold.spec.scenario import load_scenario, scenario_from
from twofold.spec.slo import Slo

RUN: dict[str, Any] = {"model": "llama-3-8b", "device": "H100", "deployment": "2B,chunked=256"}

TEXT = """
workload: traces/small.csv
model: llama-3-8b
device: H100
deployment:
  groups:
    - {count: 3, role: prefill, tp: 2}
    - {count: 1, role: decode, device: A100}
  router: least-tokens
  faults:
    - {target: 1, at_s: 2min, for_s: 5s}
slo: ttft<=0.5s, tpot<=20ms @90%
"""


def read_all(mapping: dict[str, Any], overrides: list[str]) -> None:
    scenario = scenario_from(mapping, overrides)
    scenario.read_workload()
    scenario.read_deployment()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "traces").mkdir()
    rows = "".join(f"{time},{10 + time},3\n" for time in range(5))
    (tmp_path / "traces" / "small.csv").write_text("arrival_s,prompt_tokens,output_tokens\n" + rows)
    (tmp_path / "run.yaml").write_text(TEXT)
    return tmp_path


def test_a_file_says_all_of_a_run(folder: Path) -> None:
    scenario = load_scenario(folder / "run.yaml")
    assert scenario.read_workload().prompt_tokens.tolist() == [10, 11, 12, 13, 14]
    assert scenario.read_slo() == Slo(ttft_s=0.5, tpot_s=0.02)
    deployment = scenario.read_deployment()
    assert deployment.model == catalog.model("llama-3-8b")
    assert deployment.by_device() == {catalog.device("H100").name: 6, catalog.device("A100").name: 1}
    assert deployment.router == "least-tokens"
    assert deployment.faults[0].at_s == 120


def test_overrides_reach_into_lists_and_are_checked(folder: Path) -> None:
    scenario = load_scenario(folder / "run.yaml", ["deployment.groups.1.tp=4", "requests=2", "slo=e2e<=1s"])
    assert scenario.read_deployment().groups[1].tp == 4
    assert len(scenario.read_workload()) == 2
    assert scenario.read_slo() == Slo(e2e_s=1)


def test_overrides_do_not_change_the_mapping_given() -> None:
    mapping = {**RUN, "workload": {"requests": 5, "rate": 1}}
    scenario_from(mapping, ["workload.requests=9"])
    assert mapping["workload"] == {"requests": 5, "rate": 1}


def test_notation_and_fields_go_together() -> None:
    scenario = scenario_from(RUN, ["deployment.router=random"])
    deployment = scenario.read_deployment()
    assert str(deployment) == "2B,chunked=256"
    assert deployment.router == "random"


def test_a_link_is_looked_up() -> None:
    link = catalog.links()[0]
    assert scenario_from({**RUN, "link": link.name}).read_deployment().link == link
    with pytest.raises(SpecError, match="wet string"):
        scenario_from({**RUN, "link": "wet string"}).read_deployment()


def test_the_top_level_replaces_the_mapping() -> None:
    run = {**RUN, "deployment": {"groups": "1B", "seed": 1, "transfer": "push", "device": "A100"}}
    deployment = scenario_from({**run, "seed": 7, "transfer": "pull"}).read_deployment()
    assert (deployment.seed, deployment.transfer) == (7, "pull")
    assert deployment.by_device() == {catalog.device("H100").name: 1}


def test_a_trace_is_cut_then_timed(folder: Path) -> None:
    base = {"workload": "traces/small.csv"}
    cut = scenario_from({**base, "requests": 3, "rate": "8/s"}, base=folder).read_workload()
    assert (len(cut), cut.rate) == (3, pytest.approx(8))
    fast = scenario_from({**base, "speedup": 2}, base=folder).read_workload()
    assert fast.arrival_s.tolist() == [0, 0.5, 1, 1.5, 2]


def test_a_synthetic_workload_takes_rate_requests_and_seed() -> None:
    mapping = {"workload": {"prompt": "fixed:5"}, "rate": 4, "requests": 50, "seed": 3}
    w = scenario_from(mapping).read_workload()
    assert len(w) == 50
    other = scenario_from({**mapping, "seed": 4}).read_workload()
    assert w.content_key() != other.content_key()
    own = {**mapping, "workload": {"prompt": "fixed:5", "seed": 3}, "seed": 4}
    assert scenario_from(own).read_workload().content_key() == w.content_key()


def test_files_of_distributions_are_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("tokens,cdf\n5,1\n")
    (tmp_path / "r.csv").write_text("t_s,total_req_s\n0,2\n")
    mapping = {"workload": {"prompt": "cdf:l.csv", "arrivals": "piecewise:r.csv", "requests": 5}}
    assert scenario_from(mapping, base=tmp_path).read_workload().prompt_tokens.tolist() == [5] * 5


def test_the_sample_is_the_default_workload() -> None:
    assert len(scenario_from({}).read_workload()) == 1920


def test_a_run_without_objectives() -> None:
    assert scenario_from(RUN).read_slo() is None


@pytest.mark.parametrize(
    ("changes", "overrides", "message"),
    [
        ({"wrkload": 1}, [], "wrkload: 1 is not accepted; no such field; did you mean workload"),
        ({"rate": 1, "speedup": 2}, [], "speedup: 2.0 is not accepted; give either"),
        ({"rate": "x"}, [], "rate: 'x'"),
        ({"slo": "ttft<1"}, [], "slo: 'ttft<1'"),
        ({"slo": 5}, [], "slo: 5"),
        ({"workload": {"requests": 5}, "format": "csv"}, [], "only a trace file has a format"),
        ({}, ["rate"], "set: 'rate' is not accepted; write FIELD=VALUE"),
        ({}, ["deployment.seed=x"], "deployment.seed: 'x'"),
        ({}, ["deployment.groups.0.tp=2"], "deployment.groups is '2B,chunked=256', which has no fields"),
        ({"deployment": {"groups": [{}]}}, ["deployment.groups.1.tp=2"], "1 is not an index of 1 entries"),
        ({"deployment": {"groups": [{}]}}, ["deployment.groups.0.tp=0"], "deployment.groups.0.tp: 0"),
        ({"deployment": None}, [], "deployment: missing; say how to deploy"),
        ({"model": None}, [], "model: missing"),
        ({"device": "H1000"}, [], "H1000"),
        ({"workload": "missing.csv"}, [], "no such file"),
        ({"workload": {"requests": 5, "rate": 1, "prompt": "?"}}, [], "workload.prompt: '?'"),
    ],
)
def test_a_bad_scenario_is_refused_in_one_line(changes: dict[str, Any], overrides: list[str], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_all({**RUN, **changes}, overrides)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("text", "message"), [("a: [1", "not YAML"), ("- 1", "a mapping with the fields")])
def test_a_file_that_is_no_scenario(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text)
    with pytest.raises(SpecError, match=message) as caught:
        load_scenario(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(SpecError, match="no such file"):
        load_scenario(tmp_path / "none.yaml")


@pytest.mark.parametrize("cost", [{"engine": "vllm"}, {"file": 3}, {"flop_efficiency": "fast"}])
def test_a_cost_is_numbers_and_a_file_with_its_engine(cost):
    with pytest.raises(SpecError, match="cost"):
        scenario_from({"cost": cost})
