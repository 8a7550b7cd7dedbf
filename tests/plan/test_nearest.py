import re

import numpy as np
import pytest

from twofold.plan.examine import Question
from twofold.plan.goodput import Grid, goodput
from twofold.plan.nearest import nearest_possible
from twofold.plan.resources import parse_resources
from twofold.plan.space import Space
from twofold.spec import catalog
from twofold.spec.notation import parse_deployment
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload

MODEL = catalog.model("llama-3-8b")
ROWS = Workload("rows", np.arange(40.0), np.arange(40) * 50 + 100, np.full(40, 20))


def said(slo: str, gpus: str = "2xH100", target: float | None = None) -> str:
    limits = Slo.parse(slo)
    return nearest_possible(Question(ROWS, limits, Grid(0.01)), Space(MODEL, parse_resources(gpus), limits), target)


@pytest.mark.parametrize("slo", ["ttft<=1ms, tpot<=1ms @90%", "ttft<=1ms @50%", "e2e<=1ms @100%", "tpot<=0.1ms @90%"])
def test_what_is_said_to_be_reached_is_reached_one_request_at_a_time(slo):
    line = said(slo)
    limits, deployment = re.search(r"nearest possible: (.*), one request at a time on (.*)$", line).groups()
    found = goodput(ROWS, parse_deployment(deployment, model=MODEL, device="H100"), Slo.parse(limits), precision=0.5)
    assert found.rate > 0.0
    tighter = Slo.parse(limits).scaled(0.97)
    assert goodput(ROWS, parse_deployment(deployment, model=MODEL, device="H100"), tighter, precision=0.5).rate == 0.0


def test_it_is_one_line_that_names_what_was_asked():
    line = said("ttft<=1ms @90%", target=7.0)
    assert "\n" not in line
    assert line.startswith("no deployment of Llama-3-8B on 2xH100 keeps it at 7 req/s; ")
    assert "at any rate" in said("p90 ttft<=1ms")


def test_more_devices_a_replica_come_nearer():
    def reached(gpus: str) -> float:
        return float(re.search(r"ttft<=([\d.]+)ms", said("ttft<=1ms @90%", gpus))[1])

    assert reached("4xH100") < reached("1xH100") / 2
