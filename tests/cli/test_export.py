import json
import os
from pathlib import Path
from typing import Any

import pytest

from twofold.plan.document import PLAN_VERSION, deployment_mapping
from twofold.spec.notation import parse_deployment

WORKLOAD = {
    "name": "sample",
    "requests": 40,
    "prompt_tokens": {"mean": 600.0, "p50": 500.0},
    "output_tokens": {"mean": 40.0, "p50": 40.0},
}


def row(text: str) -> dict[str, Any]:
    deployment = parse_deployment(text, model="llama-3-8b", device="H100", router="least-tokens")
    return {"goodput_req_s": 3.5, "spec": deployment_mapping(deployment)}


@pytest.fixture(autouse=True)
def plan(tmp_path: Path) -> None:
    candidates = [row(text) for text in ("2P,tp2 + 1D", "1B,multiplexed", "1B,chunked=512")]
    document = {"version": PLAN_VERSION, "slo": "ttft<=1s", "workload": WORKLOAD, "candidates": candidates}
    (tmp_path / "plan.json").write_text(json.dumps(document))


def test_one_file_is_shown_as_it_is(here: Any) -> None:
    shown = here("export", "plan.json", "--to", "vllm", "--rank", "3")
    assert shown.code == 0
    assert shown.out.startswith("#!/usr/bin/env bash\n")
    assert "vllm serve" in shown.out


def test_several_files_are_told_apart(here: Any) -> None:
    out = here("export", "plan.json", "--to", "sglang").out
    assert [line for line in out.splitlines() if line.startswith("# ====")] == [
        "# ======== serve.sh ========",
        "# ======== router.sh ========",
    ]


def test_files_are_written_and_how_to_start_is_said(here: Any, tmp_path: Path) -> None:
    shown = here("export", "plan.json", "--to", "vllm", "--out", "run/it", "--model-path", "/my models/llama")
    assert shown.out.splitlines() == [
        "wrote run/it/serve.sh",
        "wrote run/it/router.sh",
        "start: bash serve.sh",
        "start: bash router.sh",
    ]
    assert os.access(tmp_path / "run/it/serve.sh", os.X_OK)
    assert "MODEL='/my models/llama'" in (tmp_path / "run/it/serve.sh").read_text()


def test_nothing_is_overwritten_unless_forced(here: Any, tmp_path: Path) -> None:
    arguments = ("export", "plan.json", "--to", "kubernetes", "--out", ".")
    assert here(*arguments).code == 0
    (tmp_path / "deployment.yaml").write_text("mine")
    refused = here(*arguments)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "--force" in refused.err
    assert (tmp_path / "deployment.yaml").read_text() == "mine"
    assert here(*arguments, "--force").code == 0
    assert (tmp_path / "deployment.yaml").read_text() != "mine"


@pytest.mark.parametrize("rank", ["1", "2"])
def test_the_scenario_is_simulated_as_it_is(here: Any, rank: str) -> None:
    assert here("export", "plan.json", "--to", "twofold", "--rank", rank, "--out", ".").code == 0
    summary = json.loads(here("simulate", "run.yaml", "--json").out)
    assert summary["requests"] == summary["completed"] >= 40


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--to", "vlm"), "did you mean vllm?"),
        (("--to", "vllm", "--rank", "2"), "does not divide"),
        (("--to", "vllm", "--rank", "4"), "1 to 3"),
        (("--to", "dynamo", "--model-path", "/local"), "hub id"),
        ((), "--to"),
    ],
)
def test_bad_input_is_one_line(here: Any, arguments: tuple[str, ...], told: str) -> None:
    shown = here("export", "plan.json", *arguments)
    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert told in shown.err
