import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]
ON_H100 = ("--model", "llama-3-8b", "--device", "H100")
MADE = ("--rate", "30", "--requests", "60", "--prompt", "lognormal:755:0.6", "--output", "lognormal:200:0.8")
STATISTICS = {"mean", "p50", "p90", "p99", "max"}


def test_json_is_one_object_that_repeats(twofold: Command) -> None:
    arguments = ("simulate", *MADE, "--seed", "1", *ON_H100, "--deploy", "1B,prefill-first", "--json")
    first = json.loads(twofold(*arguments).stdout)
    assert first == json.loads(twofold(*arguments).stdout)
    assert first["requests"] == first["completed"] == 60
    for latency in ("ttft_s", "tbt_s", "tpot_s", "e2e_s"):
        assert set(first[latency]) == STATISTICS
    assert sum(first["breakdown_s"].values()) == pytest.approx(first["e2e_s"]["mean"])


def test_screen_shows_latencies_and_attainment(twofold: Command) -> None:
    shown = twofold("simulate", "sample", "--requests", "40", *ON_H100, "--deploy", "2P2D", "--slo", "ttft<=0.5s")
    assert shown.stderr == ""
    for word in ("40 of 40 completed", "TTFT", "attainment", "decoding", "transfers"):
        assert word in shown.stdout


def test_files_of_requests_and_timeline(twofold: Command, tmp_path: Path) -> None:
    written = ("--per-request", "r.csv", "--timeline", "t.json")
    shown = twofold("simulate", "sample", "--requests", "30", *ON_H100, "--deploy", "1P1D", *written)
    assert shown.returncode == 0
    assert len((tmp_path / "r.csv").read_text().splitlines()) == 31
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]


def test_scenario_file_and_settings(twofold: Command, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(
        "workload: {rate: 5, requests: 30}\nmodel: llama-3-8b\ndevice: H100\ndeployment: 1B\n"
    )
    shown = twofold("simulate", "run.yaml", "--set", "workload.requests=12", "--json")
    assert json.loads(shown.stdout)["requests"] == 12


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("missing.csv", *ON_H100, "--deploy", "1B"), "missing.csv"),
        (("missing.yaml",), "missing.yaml"),
        (("sample", *ON_H100), "deployment"),
        (("sample", "--device", "H100", "--deploy", "1B"), "model"),
        (("sample", *ON_H100, "--deploy", "1X"), "1X"),
        (("sample", *ON_H100, "--deploy", "1B", "--slo", "ttfb<=1s"), "ttfb"),
        (("sample", *ON_H100, "--deploy", "1B", "--rate", "2", "--speedup", "2"), "speedup"),
        (("sample", *ON_H100, "--deploy", "1B", "--prompt", "fixed:3"), "--prompt"),
        (("sample", *ON_H100, "--deploy", "1B", "--set", "colour=blue"), "colour"),
        (("sample", *ON_H100, "--deploy", "1B", "--per-request", "out.xls"), ".parquet"),
        (("sample", *ON_H100, "--deploy", "1B", "--timeline", "no/t.json"), "folder"),
        (("sample", *ON_H100, "--deploy", "1B", "--model", "llama-3-70b"), "H100"),
    ],
)
def test_bad_input_is_one_line(twofold: Command, arguments: tuple[str, ...], told: str) -> None:
    shown = twofold("simulate", *arguments)
    assert (shown.returncode, shown.stdout, shown.stderr.count("\n")) == (2, "", 1)
    assert told in shown.stderr


def test_compare_marks_the_best(twofold: Command) -> None:
    deployments = ("--deploy", "2B,prefill-first", "--deploy", "1P1D")
    arguments = ("compare", "sample", "--requests", "60", *ON_H100, *deployments)
    shown = twofold(*arguments)
    assert [line.split()[0] for line in shown.stdout.splitlines()[3:5]] == ["2B,prefill-first", "1P1D"]
    assert "*" in shown.stdout
    listed = json.loads(twofold(*arguments, "--json").stdout)["deployments"]
    assert [entry["deployment"] for entry in listed] == ["2B,prefill-first", "1P1D"]


def test_compare_needs_deployments(twofold: Command) -> None:
    shown = twofold("compare", "sample", *ON_H100)
    assert shown.returncode == 2
    assert "--deploy" in shown.stderr
