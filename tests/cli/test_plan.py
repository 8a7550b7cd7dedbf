import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from terminal import terminal
from twofold.plan.document import read_plan
from twofold.spec import catalog

TWOFOLD = Path(sys.executable).parent / "twofold"
ON_ONE = ("--model", "llama-3-8b", "--gpus", "1xH100", "--slo", "ttft<=0.3s, tpot<=30ms @90%")
QUICK = ("--workers", "1", "--top", "2", "--resamples", "0")
SMALL = ("plan", "sample", "--requests", "60", *ON_ONE, *QUICK)
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Longer replays that are not long, and a cache of searches that is nobody's."""
    monkeypatch.setattr("twofold.plan.searches.LONG", 300)
    monkeypatch.setenv("TWOFOLD_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


def test_json_ranks_the_candidates(here: Any) -> None:
    plan = json.loads(here(*SMALL, "--json").out)
    goodputs = [candidate["goodput_req_s"] for candidate in plan["candidates"]]
    assert plan["best"] == plan["candidates"][0]
    assert goodputs == sorted(goodputs, reverse=True)
    assert goodputs[0] > 1
    assert plan["workload"]["requests"] == 60
    assert {candidate["devices"] for candidate in plan["candidates"]} == {1}


def test_the_same_json_whatever_the_workers_and_with_or_without_the_cache(here: Any) -> None:
    answers = [
        here(*SMALL, "--json", *more).out
        for more in (("--no-cache",), (), (), ("--workers", "2"), ("--workers", "2", "--no-cache"))
    ]
    assert len(json.loads(answers[0])["candidates"]) > 1
    assert set(answers) == {answers[0]}


def test_the_screen_lists_the_best_and_what_proves_them(here: Any) -> None:
    shown = here(*SMALL)
    lines = shown.out.splitlines()
    assert lines[0].startswith("sample: 60 requests")
    assert lines[1] == "Llama-3-8B on 1xH100: ttft<=0.3s, tpot<=30ms @90%; for goodput"
    assert [line.split()[0] for line in lines[4:6]] == ["1", "2"]
    assert "is the best of 12:" in shown.out
    assert "gap 0." in shown.out
    assert (shown.code, shown.err) == (0, "")


def test_made_requests_and_constants_of_the_cost_model(here: Any) -> None:
    made = ("plan", "--rate", "5", "--requests", "50", *ON_ONE, *QUICK, "--json")
    fast, slow = (json.loads(here(*made, *more).out) for more in ((), ("--set", "cost.flop_efficiency=0.2")))
    assert fast["workload"]["requests"] == 50
    assert slow["best"]["goodput_req_s"] < fast["best"]["goodput_req_s"]


def test_the_least_for_a_target_within_power(here: Any) -> None:
    asked = (*SMALL, "--gpus", "H100 + L4", "--within", "3kW", "--objective", "cost", "--target-rate", "8", "--json")
    plan = json.loads(here(*asked, "--slo", "ttft<=2s, tpot<=80ms @90%").out)
    assert (plan["gpus"], plan["watts"], plan["target_rate_req_s"]) == ({"H100": None, "L4": None}, 3000.0, 8.0)
    prices = [candidate["usd_per_hour"] for candidate in plan["candidates"]]
    assert prices == sorted(prices)
    assert all(candidate["watts"] <= 3000.0 for candidate in plan["candidates"])


def test_robust_plans_show_the_regret(here: Any, tmp_path: Path) -> None:
    rows = "".join(f"2023-11-16 18:15:{i:02}.0,{200 + 40 * i},{20 + i}\n" for i in range(50))
    (tmp_path / "other.csv").write_text(AZURE + rows)
    shown = here(*SMALL, "--robust", "other.csv")
    assert (shown.code, shown.err) == (0, "")
    assert "regret" in shown.out
    assert "is the best of" not in shown.out


def test_the_plan_file_is_what_json_prints(here: Any, tmp_path: Path) -> None:
    printed = json.loads(here(*SMALL, "--json", "--save", "plan.json").out)
    assert json.loads((tmp_path / "plan.json").read_text()) == printed


def test_a_plan_that_cannot_be_written_is_not_lost(here: Any, tmp_path: Path) -> None:
    (tmp_path / "full").symlink_to("/dev/full")
    shown = here(*SMALL, "--save", "full")
    assert shown.code == 2
    assert "is the best of 12:" in shown.out
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--save", "nowhere/plan.json"), "no folder nowhere"),
        (("--save", "."), "it is a folder"),
        (("--report", "nowhere/plan.html"), "no folder nowhere"),
        (("--pictures", "file"), "it is a file"),
    ],
)
def test_where_nothing_can_be_written_nothing_is_searched(
    here: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], told: str
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("twofold.plan.search.plan", None)
    shown = here(*SMALL, *flags)
    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert told in shown.err


def test_a_report_without_its_extra_says_how_to_get_it(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twofold.plan.report.drawing.find_spec", lambda _: None)
    monkeypatch.setattr("twofold.plan.search.plan", None)
    shown = here(*SMALL, "--report", "plan.html")
    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert "pip install" in shown.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--model", "llama-3-8b", "--slo", "ttft<=1s"), "--gpus"),
        (("--model", "llama-3-8b", "--gpus", "1xH100"), "--slo"),
        (("--gpus", "1xH100", "--slo", "ttft<=1s"), "--model"),
        ((*ON_ONE, "--gpus", "8H100"), "8xH100"),
        ((*ON_ONE, "--gpus", "garbage!"), "COUNTxDEVICE"),
        ((*ON_ONE, "--gpus", "1xH1000"), "did you mean H100"),
        ((*ON_ONE, "--gpus", "H100"), "say how many there are"),
        ((*ON_ONE, "--gpus", "1xL4", "--model", "llama-3-70b"), "at least"),
        ((*ON_ONE, "--requests", "20", "--slo", "ttft<=1us, tpot<=1us"), "nearest possible: ttft<="),
        ((*ON_ONE, "--requests", "20", "--slo", "p99 ttft<=1us"), "nearest possible: ttft<="),
        ((*ON_ONE, "--requests", "1"), "two requests"),
        ((*ON_ONE, "--within", "garbage"), "150$/h"),
        ((*ON_ONE, "--within", "0kW"), "above 0"),
        ((*ON_ONE, "--within", "0.01$/h"), "at least"),
        ((*ON_ONE, "--target-rate", "5"), "target-rate"),
        ((*ON_ONE, "--objective", "cost"), "target-rate"),
        ((*ON_ONE, "--objective", "cost", "--target-rate", "-3"), "above 0"),
        ((*ON_ONE, "--objective", "cost", "--target-rate", "nan"), "above 0"),
        ((*ON_ONE, "--requests", "60", "--objective", "cost", "--target-rate", "300"), "out of reach"),
        ((*ON_ONE, "--objective", "speed"), "goodput-per-dollar"),
        ((*ON_ONE, "--robust", "missing.csv"), "no such file"),
        ((*ON_ONE, "--robust", "sample", "--objective", "goodput-per-gpu"), "several workloads"),
        ((*ON_ONE, "--time", "0s"), "above 0"),
        ((*ON_ONE, "--time", "soon"), "0.5s"),
        ((*ON_ONE, "--workers", "0"), "--workers"),
        ((*ON_ONE, "--set", "router=random"), "plan chooses"),
        ((*ON_ONE, "--deploy", "1B"), "--deploy"),
    ],
)
def test_bad_input_is_one_line(here: Any, arguments: tuple[str, ...], told: str) -> None:
    shown = here("plan", "sample", *arguments)
    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert told in shown.err


@pytest.mark.parametrize(
    ("rows", "told"),
    [(0, "no rows"), (1, "two requests"), (30, "arrive at once")],
)
def test_traces_without_a_rate_are_refused_in_one_line(here: Any, tmp_path: Path, rows: int, told: str) -> None:
    (tmp_path / "trace.csv").write_text(AZURE + "2023-11-16 18:15:46.6805900,100,10\n" * rows)
    shown = here("plan", "trace.csv", *ON_ONE, *QUICK)
    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert told in shown.err


def test_a_trace_too_short_to_overload_anything_is_planned_on_longer_replays(here: Any, tmp_path: Path) -> None:
    rows = "".join(f"2023-11-16 18:15:{second}.0,1000,20\n" for second in (46, 47, 48))
    (tmp_path / "three.csv").write_text(AZURE + rows)
    plan = json.loads(here("plan", "three.csv", *ON_ONE, *QUICK, "--json").out)
    assert plan["best"]["trap_req_s"] > plan["best"]["goodput_req_s"] > 1
    assert plan["as_simulated"] is None
    shown = here("plan", "three.csv", *ON_ONE, *QUICK)
    assert shown.out.count("Not as simulated: the goodput of the best is that of a longer replay") == 1
    assert "As simulated:" not in shown.out


def test_the_command_that_simulates_the_best_gives_the_goodput_with_the_constants_of_the_plan(here: Any) -> None:
    constants = ("--set", "cost.flop_efficiency=0.2")
    plan = json.loads(here(*SMALL, "--json", *constants).out)
    command = plan["as_simulated"]
    assert command in here(*SMALL, *constants).out
    if command is not None:
        run = json.loads(here(*shlex.split(command)[1:], "--json").out)
        assert run["attainment"] == pytest.approx(plan["best"]["attainment"])


def test_models_of_a_catalog_file_can_be_planned(here: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("models: {plan-test-model: {like: llama-3-8b}}")
    (tmp_path / "run.yaml").write_text("{workload: {rate: 5, requests: 40}, catalog: mine.yaml}")
    flags = ("--model", "plan-test-model", *ON_ONE[2:], *QUICK, "--json")
    assert json.loads(here("plan", "run.yaml", *flags).out)["model"] == "plan-test-model"


@pytest.mark.parametrize("workers", [1, 2])
def test_interrupting_a_long_search_prints_what_is_proved_so_far(workers: int, tmp_path: Path) -> None:
    asked = ("--model", "llama-3-8b", "--gpus", "8xH100", "--slo", "ttft<=1s, tpot<=50ms @90%", "--no-cache")
    environment = {name: value for name, value in os.environ.items() if name != "TWOFOLD_CACHE_DIR"}
    command = [TWOFOLD, "plan", "sample", "--requests", "800", *asked, "--workers", str(workers)]
    with terminal() as shown:
        search = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=shown.inside, text=True, cwd=tmp_path, env=environment
        )
        shown.leave_inside()
        told = shown.wait_for("best")
        search.send_signal(signal.SIGINT)
        out, _ = search.communicate(timeout=60)
        told += shown.rest()
    assert search.returncode == 130
    assert re.search(r"is the best of \d+: .* (measured|not examined); interrupted", out)
    assert "interrupted" in told
    assert "Traceback" not in told


def test_a_profile_is_planned_with_on_the_device_that_it_was_measured_of(here: Any, tmp_path: Path) -> None:
    entry = {
        "dense": [[1, 0.02], [512, 0.5]],
        "prompt_attention": {"pair_s": 1e-7},
        "decode_attention": [[n, context, 1e-5 * n * context] for n in (1, 8) for context in (64, 512)],
    }
    measured = {"model": {"like": "SmolLM2-135M"}, "device": {"like": "this-cpu", "units": 6}}
    specs = {
        "model": catalog.model(measured["model"]).model_dump(mode="json"),
        "device": catalog.device(measured["device"]).model_dump(mode="json") | {"name": "plan-test-cpu"},
    }
    (tmp_path / "here.json").write_text(json.dumps({"twofold_cost": 1, **specs, "entries": [entry]}))
    load = ("--rate", "0.5", "--requests", "40", "--prompt", "fixed:100", "--output", "fixed:10")
    asked = ("--gpus", "1xplan-test-cpu", "--slo", "ttft<=3s, tbt<=0.5s @90%", "--save", "plan.json", *QUICK)
    shown = here("plan", "--cost", "here.json", *load, *asked)
    assert shown.code == 0
    assert re.fullmatch(r"twofold: beyond its measurements .* up to \d+ decodes a step \(measured to 8\)\n", shown.err)
    best = read_plan(tmp_path / "plan.json").deployment
    assert catalog.device(best.groups[0].device or best.device).units == 6
