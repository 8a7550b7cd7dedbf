import json
from dataclasses import replace
from typing import Any

import pytest
from planted import GRID, Truth, planted, random_scenario

import twofold
from twofold.plan.certify import Entry
from twofold.plan.document import deployment_from
from twofold.plan.goodput import Goodput
from twofold.plan.ranking import Candidate, Plan
from twofold.plan.resources import price_of, watts_of
from twofold.plan.uncertainty import Doubt, Interval


@pytest.fixture
def entry() -> Entry:
    _, (only,) = planted([Truth(10, 10, 40)])
    only.found, only.lasts, only.trap = Goodput(GRID.rate(10), 0.95, "ttft", 7), True, GRID.rate(30)
    return only


@pytest.fixture(scope="module")
def found() -> Plan:
    scenario = random_scenario(3)
    asked: dict[str, Any] = {"model": scenario.model, "budget": scenario.budget, "slo": scenario.slo}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("twofold.plan.searches.LONG", 400)
        return twofold.plan(scenario.workload, **asked, keep=2, samples=2, workers=1)


def test_a_candidate_has_what_its_entry_and_its_interval_know(entry: Entry) -> None:
    made = Candidate.of(entry, Interval(1.0, 1.2, (2, 3)))
    assert (made.deployment, made.found, made.trap, made.confirmed) == (
        entry.deployment,
        entry.found,
        GRID.rate(30),
        True,
    )
    assert (made.low, made.high, made.swaps_with) == (1.0, 1.2, (2, 3))
    assert (made.cost_error, made.not_told_from) == (None, ())
    assert (made.bound, made.bound_limit) == (GRID.rate(40), "prefill compute")


def test_without_an_interval_nothing_is_made_up(entry: Entry) -> None:
    row = Candidate.of(entry, None).row()
    assert (row["low_req_s"], row["high_req_s"], row["swaps_with"]) == (None, None, [])


def test_what_the_cost_model_cannot_tell_apart_is_in_the_row(entry: Entry) -> None:
    row = Candidate.of(entry, None, Doubt(0.04, (2, 3))).row()
    assert (row["cost_error"], row["not_told_from"]) == (0.04, [2, 3])
    assert (row["low_req_s"], row["swaps_with"]) == (None, [])


def test_a_goodput_at_the_bound_is_limited_by_what_bounds_it(entry: Entry) -> None:
    entry.found = Goodput(GRID.rate(40), 1.0, "bound", 3)
    assert Candidate.of(entry, None).found.limit == "prefill compute"


def test_a_row_is_what_the_deployment_costs_and_reads_back(found: Plan) -> None:
    for candidate, row in zip(found.candidates, found.rows, strict=True):
        assert row["goodput_per_device_req_s"] == pytest.approx(row["goodput_req_s"] / row["devices"])
        assert (row["usd_per_hour"], row["watts"]) == (price_of(candidate.deployment), watts_of(candidate.deployment))
        assert str(deployment_from(row["spec"])) == str(candidate.deployment)


def test_a_mixed_pool_is_named() -> None:
    pool = twofold.deployment("1P1D", model="llama-3-8b", device="H100").replaced(mixed_pool=True)
    label = Candidate(pool, Goodput(1.0, 0.9, "ttft", 1), 2.0, "ttft").label
    assert label.endswith("(mixed pool)")
    assert twofold.deployment(label, model="llama-3-8b", device="H100") == pool


def test_the_plan_is_json_best_first(found: Plan) -> None:
    written = json.loads(json.dumps(found.to_dict()))
    assert written["best"] == written["candidates"][0]
    assert written["certificate"] == vars(found.certificate)
    assert (written["version"], written["regret"]) == (2, None)
    assert found.best is found.candidates[0]


def test_rows_follow_the_candidates(found: Plan) -> None:
    turned = replace(found, candidates=found.candidates[::-1])
    assert [row["deployment"] for row in turned.rows] == [row["deployment"] for row in found.rows[::-1]]
    assert [row["proved"] for row in turned.rows] == [row["proved"] for row in found.rows]
