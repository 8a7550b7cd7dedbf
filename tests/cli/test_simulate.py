import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from twofold.cost.roofline import Roofline
from twofold.spec import catalog

Command = Callable[..., subprocess.CompletedProcess[str]]
ON_H100 = ("--model", "llama-3-8b", "--device", "H100")
SAMPLE = ("simulate", "sample", "--requests", "40", *ON_H100)
MADE = ("--rate", "30", "--requests", "60", "--prompt", "lognormal:755:0.6", "--output", "lognormal:200:0.8")
STATISTICS = {"mean", "p50", "p90", "p99", "max"}
FAULTY = """
workload: {rate: 20, requests: 120}
model: llama-3-8b
device: H100
deployment:
  groups: 2P2D
  link_per: replica
  faults: [{kind: replica, target: 0, at_s: 1, for_s: 1}]
slo: ttft<=0.5s
"""


def summary(shown: Any) -> Any:
    assert (shown.code, shown.err) == (0, "")
    return json.loads(shown.out)


def test_json_is_one_object_that_repeats(twofold: Command) -> None:
    arguments = ("simulate", *MADE, "--seed", "1", *ON_H100, "--deploy", "1B,prefill-first", "--json")
    first = json.loads(twofold(*arguments).stdout)
    assert first == json.loads(twofold(*arguments).stdout)
    assert first["requests"] == first["completed"] == 60
    for latency in ("ttft_s", "tbt_s", "tpot_s", "e2e_s"):
        assert set(first[latency]) == STATISTICS
    assert sum(first["breakdown_s"].values()) == pytest.approx(first["e2e_s"]["mean"])


def test_screen_shows_latencies_and_attainment(here: Any) -> None:
    shown = here(*SAMPLE, "--deploy", "2P2D", "--slo", "ttft<=0.5s")
    assert shown.err == ""
    for word in ("40 of 40 completed", "TTFT", "attainment", "decoding", "transfers"):
        assert word in shown.out
    assert "faults" not in shown.out


def test_files_of_requests_and_timeline(twofold: Command, tmp_path: Path) -> None:
    written = ("--per-request", "r.csv", "--timeline", "t.json")
    shown = twofold(*SAMPLE, "--deploy", "1P1D", "--json", *written)
    assert json.loads(shown.stdout)["requests"] == 40
    assert pl.read_csv(tmp_path / "r.csv").height == 40
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert {"step", "transfer"} <= {event.get("cat") for event in events}
    assert all(event["dur"] >= 0 for event in events if event["ph"] == "X")


def test_requests_as_parquet_are_those_as_csv(here: Any, tmp_path: Path) -> None:
    for name in ("r.csv", "r.parquet"):
        assert here(*SAMPLE, "--deploy", "1B", "--per-request", name).code == 0
    columns = ["prompt_tokens", "ttft_s", "e2e_s"]
    assert pl.read_parquet(tmp_path / "r.parquet")[columns].equals(pl.read_csv(tmp_path / "r.csv")[columns])


def test_a_scenario_file_brings_faults_and_is_overridden(here: Any, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(FAULTY)
    assert summary(here("simulate", "run.yaml", "--json"))["faults"]["count"] == 1
    flags = ("--set", "workload.requests=12", "--deploy", "1P2D", "--set", "deployment.faults=[]")
    changed = summary(here("simulate", "run.yaml", "--json", *flags))
    assert (changed["requests"], changed["deployment"], changed["faults"]["count"]) == (12, "1P2D", 0)


@pytest.mark.parametrize(
    "flags",
    [
        ("--link", "25GbE"),
        ("--link-per", "replica"),
        ("--fabric", "1GB/s"),
        ("--layerwise",),
        ("--transfer", "push"),
        ("--router", "random", "--seed", "3"),
        ("--set", "cost.flop_efficiency=0.3"),
    ],
    ids=lambda flags: flags[0] + flags[-1],
)
def test_every_flag_of_a_deployment_changes_the_run(here: Any, flags: tuple[str, ...]) -> None:
    arguments = ("simulate", "sample", "--requests", "80", "--rate", "60", *ON_H100, "--deploy", "2P,tp2 + 2D,tp2")
    plain, changed = (summary(here(*arguments, "--json", *more)) for more in ((), flags))
    assert changed["completed"] == plain["completed"] == 80
    assert changed["e2e_s"] != plain["e2e_s"]


def test_the_default_constants_change_nothing(here: Any) -> None:
    same = f"cost.flop_efficiency={Roofline().flop_efficiency}"
    plain, changed = (summary(here(*SAMPLE, "--deploy", "1B", "--json", *more)) for more in ((), ("--set", same)))
    assert changed == plain


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("missing.csv", *ON_H100, "--deploy", "1B"), "missing.csv"),
        (("missing.yaml",), "missing.yaml"),
        ((*ON_H100, "--deploy", "1B"), "--rate and --requests"),
        (("sample", *ON_H100), "deployment"),
        (("sample", "--device", "H100", "--deploy", "1B"), "model"),
        (("sample", "--model", "llama-3-8b", "--deploy", "1B"), "device"),
        (("sample", *ON_H100, "--deploy", "1X"), "1X"),
        (("sample", *ON_H100, "--deploy", "1P"), "1P1D"),
        (("sample", *ON_H100, "--deploy", "1B,policy=unheard-of"), "--policy-file"),
        (("sample", *ON_H100, "--deploy", "1B", "--slo", "ttfb<=1s"), "slo: 'ttfb<=1s'"),
        (("sample", *ON_H100, "--deploy", "1B", "--rate", "2", "--speedup", "2"), "speedup"),
        (("sample", *ON_H100, "--deploy", "1B", "--rate", "nan"), "rate"),
        (("sample", *ON_H100, "--deploy", "1B", "--requests", "0"), "requests"),
        (("sample", *ON_H100, "--deploy", "1B", "--seed", "-1"), "seed"),
        (("sample", *ON_H100, "--deploy", "1B", "--prompt", "fixed:3"), "--prompt"),
        (("sample", *ON_H100, "--deploy", "1B", "--router", "fastest"), "kv-aware"),
        (("sample", *ON_H100, "--deploy", "1P1D", "--transfer", "throw"), "pull or push"),
        (("sample", *ON_H100, "--deploy", "1P1D", "--link", "string"), "twofold links"),
        (("sample", *ON_H100, "--deploy", "1P1D", "--link-per", "rack"), "device or replica"),
        (("sample", *ON_H100, "--deploy", "1P1D", "--fabric", "wide"), "400Gb/s"),
        (("sample", *ON_H100, "--deploy", "1B", "--set", "colour=blue"), "colour"),
        (("sample", *ON_H100, "--deploy", "1B", "--set", "colour"), "FIELD=VALUE"),
        (("sample", *ON_H100, "--deploy", "1B", "--set", "cost.colour=1"), "flop_efficiency"),
        (("sample", *ON_H100, "--deploy", "1B", "--set", "cost.flop_efficiency=2"), "at most 1"),
        (("sample", *ON_H100, "--deploy", "1B", "--set", "cost.step_overhead_s=.nan"), "finite"),
        (("sample", *ON_H100, "--deploy", "1B", "--per-request", "out.xls"), ".parquet"),
        (("sample", *ON_H100, "--deploy", "1B", "--timeline", "no/t.json"), "folder"),
        (("sample", *ON_H100, "--deploy", "1B", "--model", "llama-3-70b"), "H100"),
    ],
)
def test_bad_input_is_one_line(here: Any, arguments: tuple[str, ...], told: str) -> None:
    shown = here("simulate", *arguments)
    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert told in shown.err


@pytest.mark.parametrize(
    ("residuals", "told"),
    [
        (
            {"prompt": 0.03, "decode": 0.02},
            "known to within ±3.0 % (prompts), ±2.0 % (decodes), one standard deviation",
        ),
        ({"decode": 0.02}, "known to within ±2.0 % (decodes), one standard deviation; unknown for prompts"),
        ({}, None),
    ],
)
def test_a_cost_file_with_residuals_says_how_near_the_step_times_are(
    here: Any, tmp_path: Path, residuals: dict[str, float], told: str | None
) -> None:
    entry = {
        "dense": [[1, 6e-3], [512, 2e-2]],
        "prompt_attention": {"pair_s": 1e-8},
        "decode_attention": [[1, 128, 1e-4], [1, 1024, 2e-4], [8, 128, 3e-4], [8, 1024, 9e-4]],
        "residuals": residuals,
    }
    specs = {"model": catalog.model("llama-3-8b").model_dump(), "device": catalog.device("H100").model_dump()}
    (tmp_path / "own.json").write_text(json.dumps({"twofold_cost": 1, **specs, "entries": [entry]}))
    arguments = ("simulate", "sample", "--requests", "20", "--deploy", "1P1D", "--cost", "own.json")
    shown = here(*arguments).out
    lines = [line.removeprefix("step times").strip() for line in shown.splitlines() if line.startswith("step times")]
    assert lines == ([] if told is None else [told])
    band = json.loads(here(*arguments, "--json").out)["band"]
    assert (band is None) == (told is None)
