import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twofold.errors import SpecError
from twofold.plan.document import deployment_mapping
from twofold.plan.export.scenario import MOST_REQUESTS, write
from twofold.spec.scenario import load_scenario

TEXTS = ("2P@A100,tp2 + 1D,cap=300W", "1B,multiplexed=slo,tbt=20ms", "2B,chunked=25ms,pp2", "1B,request-level")


@pytest.mark.parametrize("text", TEXTS)
def test_the_deployment_reads_back(order: Any, tmp_path: Path, text: str) -> None:
    made = order(text, router="least-tokens", link="IB-NDR")
    path = tmp_path / "run.yaml"
    path.write_text(write(made).files[0].text)
    scenario = load_scenario(path)
    assert deployment_mapping(scenario.read_deployment()) == deployment_mapping(made.deployment)
    assert scenario.read_slo() == made.chosen.slo


def test_the_requests_are_like_those_of_the_plan(order: Any, tmp_path: Path) -> None:
    spread = {"mean": 900.0, "p50": 600.0}
    made = order("1B", workload={"requests": 10**6, "prompt_tokens": spread, "output_tokens": spread})
    path = tmp_path / "run.yaml"
    path.write_text(write(made).files[0].text)
    workload = load_scenario(path).read_workload()
    assert len(workload) == MOST_REQUESTS
    assert np.median(workload.prompt_tokens) == pytest.approx(600, rel=0.1)
    assert workload.prompt_tokens.mean() == pytest.approx(900, rel=0.1)
    assert workload.rate == pytest.approx(2.5, rel=0.1)


def test_the_trace_of_the_plan_is_replayed_at_its_goodput(order: Any, tmp_path: Path) -> None:
    path, made = tmp_path / "run.yaml", order("1B")
    source = {"source": {"trace": "sample", "requests": 300}}
    chosen = dataclasses.replace(made.chosen, document=made.chosen.document | source)
    path.write_text(write(dataclasses.replace(made, chosen=chosen)).files[0].text)
    workload = load_scenario(path).read_workload()
    assert (len(workload), workload.name) == (300, "sample")
    assert workload.rate == pytest.approx(2.5)


def test_a_log_normal_has_that_mean_and_median(order: Any) -> None:
    _, mean, sigma = _prompt(write(order("1B")).files[0].text).split(":")
    assert float(mean) * math.exp(-(float(sigma) ** 2) / 2) == pytest.approx(500, rel=1e-3)


def _prompt(text: str) -> str:
    return next(line.split(": ", 1)[1] for line in text.splitlines() if line.strip().startswith("prompt:"))


def test_no_rate_and_no_workload_are_refused(order: Any) -> None:
    made = order("1B")
    idle = dataclasses.replace(made, chosen=dataclasses.replace(made.chosen, goodput_req_s=0.0))
    with pytest.raises(SpecError, match="goodput_req_s"):
        write(idle)
    for document in ({}, {"workload": {"requests": 3}}, {"workload": 3}):
        with pytest.raises(SpecError, match="workload"):
            write(dataclasses.replace(made, chosen=dataclasses.replace(made.chosen, document=document)))
