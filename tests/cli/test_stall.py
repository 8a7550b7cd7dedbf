"""The verb on a tiny random model."""

import json
import re
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))
from tiny import reference, saved

from twofold.plan.document import PLAN_VERSION, deployment_mapping
from twofold.spec.notation import parse_deployment


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return saved(reference("llama"), tmp_path_factory.mktemp("model"))


def test_the_verb(here, folder, tmp_path):
    pytest.importorskip("vl_convert")
    flags = ["--streams", "2", "--prompt-tokens", "64", "--output-tokens", "12", "--repeat", "1"]
    flags += ["--deploy", "1B,mixed", "--deploy", "1B,chunked=32"]
    for ending in ("svg", "png"):
        shown = here("stall", str(folder), *flags, "--picture", f"stall.{ending}")
        assert (shown.code, shown.err) == (0, "")
    assert "ttft of the prompt" in shown.out
    assert "1B,chunked=32" in shown.out
    assert "one run" in shown.out
    drawn = (tmp_path / "stall.svg").read_text()
    assert all(name in drawn for name in ("mixed", "chunked=32", "longest gap", "ms after the arrival"))
    assert (tmp_path / "stall.png").read_bytes().startswith(b"\x89PNG")
    told = json.loads(here("stall", str(folder), *flags, "--json").out)
    assert [each["deployment"] for each in told["policies"]] == ["1B,mixed", "1B,chunked=32"]
    assert told["scene"]["prompt"] == 64


def test_the_best_of_a_plan_is_a_policy_too(here, folder, tmp_path):
    deployment = parse_deployment("1B,chunked=64", model=str(folder), device="this-cpu")
    row = {"spec": deployment_mapping(deployment), "goodput_req_s": 1.0}
    plan = {"version": PLAN_VERSION, "slo": "ttft<=1s", "candidates": [row]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    flags = ["--streams", "1", "--prompt-tokens", "16", "--output-tokens", "9", "--repeat", "1"]
    told = here("stall", str(folder), *flags, "--deploy", "plan.json", "--json")
    assert [each["deployment"] for each in json.loads(told.out)["policies"]] == ["1B,chunked=64"]
    row["spec"] = deployment_mapping(parse_deployment("1B", model=str(folder), device="H100"))
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    refused = here("stall", str(folder), *flags, "--deploy", "plan.json")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "a plan for H100" in refused.err


def test_a_terminal_is_told_how_long_it_takes(here, folder, monkeypatch):
    told = []

    @contextmanager
    def watched():
        yield lambda done, total, text: told.append((done, total, text))

    monkeypatch.setattr("twofold.cli.stall.progress", watched)
    flags = ["--streams", "2", "--prompt-tokens", "16", "--output-tokens", "9", "--repeat", "2", "--deploy", "1B,mixed"]
    assert here("stall", str(folder), *flags).code == 0
    assert [done for done, _, _ in told] == [0, 0, 1]
    assert all(re.fullmatch(r"(warming up|1B,mixed), about \d+ (s|min) left", text) for _, _, text in told)


@pytest.mark.parametrize(
    "flags",
    [
        ["--deploy", "2B"],
        ["--picture", "x.gif"],
        ["--streams", "0"],
        ["--cost", "none.csv"],
        ["--dtype", "fp7"],
        ["--quantize", "int1"],
    ],
)
def test_bad_flags_are_one_line(here, folder, flags):
    shown = here("stall", str(folder), *flags)
    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
