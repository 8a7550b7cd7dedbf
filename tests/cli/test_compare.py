import json
from pathlib import Path
from typing import Any

import pytest

from twofold.cli.comparison import comparison

ON_H100 = ("--model", "llama-3-8b", "--device", "H100")
SAMPLE = ("compare", "sample", "--requests", "60", *ON_H100)
DEPLOYMENTS = ("--deploy", "2B,prefill-first", "--deploy", "1P1D")


def test_one_line_a_deployment_the_best_marked(here: Any) -> None:
    shown = here(*SAMPLE, *DEPLOYMENTS)
    lines = shown.out.splitlines()
    assert lines[0].startswith("sample: 60 requests")
    assert [line.split()[0] for line in lines[3:5]] == ["2B,prefill-first", "1P1D"]
    assert "*" in shown.out


def test_json_has_every_run(here: Any) -> None:
    listed = json.loads(here(*SAMPLE, *DEPLOYMENTS, "--json").out)["deployments"]
    assert [entry["deployment"] for entry in listed] == ["2B,prefill-first", "1P1D"]
    assert [entry["devices"] for entry in listed] == [2, 2]


def test_a_run_is_that_of_simulate(here: Any) -> None:
    compared = json.loads(here(*SAMPLE, "--deploy", "1P1D", "--json").out)["deployments"][0]
    alone = json.loads(here("simulate", *SAMPLE[1:], "--deploy", "1P1D", "--json").out)
    assert {key: compared[key] for key in alone} == alone


def test_a_scenario_keeps_what_is_not_its_groups(here: Any, tmp_path: Path) -> None:
    fault = "{kind: replica, target: 0, at_s: 0.5, for_s: 1}"
    (tmp_path / "run.yaml").write_text(
        f"{{workload: {{rate: 20, requests: 50}}, deployment: {{groups: 1B, faults: [{fault}]}}}}"
    )
    listed = json.loads(here("compare", "run.yaml", *ON_H100, *DEPLOYMENTS, "--json").out)["deployments"]
    assert [entry["faults"]["count"] for entry in listed] == [1, 1]


@pytest.mark.parametrize(
    ("deployments", "told"),
    [((), "--deploy"), (("--deploy", "1B", "--deploy", "1Z"), "1Z"), (("--deploy", "1B,tp3"), "attention heads")],
)
def test_bad_input_is_one_line(here: Any, deployments: tuple[str, ...], told: str) -> None:
    shown = here(*SAMPLE, *deployments)
    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert told in shown.err


def run(ttft_s: float | None, attainment: float | None) -> dict[str, Any]:
    spread = {"p50": ttft_s, "p99": ttft_s}
    latencies = dict.fromkeys(("ttft_s", "tpot_s", "tbt_s", "e2e_s"), spread)
    rest = {"deployment": "1B", "devices": 1, "throughput_tokens_s": 5.0, "cost_usd": 1.0, "band": None}
    return {**rest, **latencies, "attainment": attainment}


def test_only_what_differs_is_marked_and_unknown_columns_are_left_out() -> None:
    head, slow, fast = comparison([run(0.2, None), run(0.1, None)]).splitlines()[:3]
    assert "attainment" not in head
    assert "*" not in slow
    assert fast.count("*") == 6


def test_more_attainment_is_better() -> None:
    _, less, more = comparison([run(0.1, 0.5), run(0.1, 0.9)]).splitlines()[:3]
    assert "90.0 %*" in more
    assert "*" not in less


def known(deployment: str, **steps: float | None) -> dict[str, Any]:
    return run(0.1, None) | {"deployment": deployment, "band": {"steps": steps} if steps else None}


def test_one_line_says_how_near_the_steps_are_known() -> None:
    together = [known("1P1D", prompt=0.03, decode=0.02), known("2B", prompt=0.01, decode=0.025, mixed=0.05)]
    told = "step times are known to within ±3.0 % (prompts), ±2.5 % (decodes), ±5.0 % (both in one step)"
    assert comparison(together).splitlines()[-1] == f"{told}, one standard deviation"
    assert "step times" not in comparison([known("1P1D")])


def test_the_line_names_what_is_unknown() -> None:
    runs = [known("1P1D", prompt=None, decode=0.02), known("2B", prompt=0.1, decode=0.02, mixed=None), known("1B,tp2")]
    told = "step times are known to within ±2.0 % (decodes), one standard deviation"
    assert comparison(runs).splitlines()[-1] == f"{told}; unknown for prompts, both in one step, 1B,tp2"
