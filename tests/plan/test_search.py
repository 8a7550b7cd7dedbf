import json

import pytest

import twofold
from twofold.errors import SpecError
from twofold.spec.synthetic import Synthetic

SLO = "ttft<=0.5s, tpot<=20ms @90%"


@pytest.fixture(scope="module")
def workload():
    return Synthetic(rate=10, requests=150, prompt="lognormal:755:0.6", output="lognormal:60:0.5", seed=3).workload()


@pytest.fixture(scope="module")
def found(workload):
    return twofold.plan(workload, model="llama-3-8b", budget="2xH100", slo=SLO)


def test_the_ranking_is_by_goodput_and_the_first_is_best(found):
    rates = [row["goodput_req_s"] for row in found.rows]
    assert rates == sorted(rates, reverse=True)
    assert found.best.found.rate == rates[0] > 0
    assert found.best.per_device == pytest.approx(rates[0] / found.best.deployment.devices_total)


def test_the_best_deployment_really_sustains_its_goodput(found, workload):
    result = twofold.simulate(workload.at_rate(found.best.found.rate), found.best.deployment, SLO)
    assert result.summary()["attainment"] >= 0.9
    assert result.summary()["attainment"] == found.best.found.attainment


def test_the_same_plan_twice_is_the_same(found, workload):
    assert twofold.plan(workload, model="llama-3-8b", budget="2xH100", slo=SLO).to_dict() == found.to_dict()


def test_the_plan_is_json_and_its_deployments_read_back(found):
    plan = json.loads(json.dumps(found.to_dict()))
    assert plan["version"] == 1
    for row in plan["candidates"]:
        assert str(twofold.deployment(row["deployment"], model="llama-3-8b", device="H100")) == row["deployment"]


def test_progress_names_the_leader(workload):
    seen = []
    twofold.plan(workload.head(20), model="llama-3-8b", budget="1xH100", slo=SLO, progress=lambda *a: seen.append(a))
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)
    assert seen[-1][0] == seen[-1][1] > 5
    assert "best" in seen[-1][2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": "2xH100 + 2xA100"}, "devices of one kind"),
        ({"budget": "1xH100", "model": "llama-3-70b"}, "needs at least 2xH100"),
        ({"slo": "tpot<=1us"}, "at any rate"),
    ],
)
def test_what_cannot_be_planned_is_said_in_one_line(workload, options, message):
    asked = {"model": "llama-3-8b", "budget": "1xH100", "slo": SLO} | options
    with pytest.raises(SpecError, match=message) as error:
        twofold.plan(workload.head(30), **asked)
    assert "\n" not in str(error.value)
