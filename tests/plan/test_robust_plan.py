import math
from collections.abc import Iterator
from typing import Any

import pytest

import twofold
from twofold.cost.grids import Straight
from twofold.cost.measured import Key, Measured, Tables
from twofold.errors import SpecError
from twofold.plan.ranking import Plan
from twofold.plan.robust_plan import EACH, plan_robustly
from twofold.plan.uncertainty import COVERED
from twofold.spec.synthetic import Synthetic
from twofold.spec.workload import Workload

ASKED: dict[str, Any] = {
    "model": "llama-3-8b",
    "budget": "2xH100",
    "slo": "ttft<=0.25s, tpot<=20ms @90%",
    "samples": 0,
    "keep": EACH,
    "workers": 1,
}


def load(name: str, prompt: int, output: int) -> Workload:
    lengths = {"prompt": f"lognormal:{prompt}:0.4", "output": f"lognormal:{output}:0.4"}
    return Synthetic(rate=10, requests=100, seed=1, name=name, **lengths).workload()


LOADS = [load("prompts", 2500, 10), load("outputs", 150, 100)]


@pytest.fixture(scope="module", autouse=True)
def short() -> Iterator[None]:
    """Longer replays that are not long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("twofold.plan.searches.LONG", 400)
        yield


@pytest.fixture(scope="module")
def found() -> Plan:
    return plan_robustly(LOADS, **ASKED)


def test_the_ranking_is_by_the_worst_regret(found: Plan) -> None:
    assert found.regret is not None
    worst = {str(row.deployment): (row.worst, row.mean) for row in found.regret.rows}
    order = [worst[str(candidate.deployment)] for candidate in found.candidates]
    assert order == sorted(order)
    assert found.best.deployment == found.regret.least_regret.deployment
    assert found.regret.workloads == ("prompts", "outputs")


def test_the_best_of_each_workload_are_tried_on_all(found: Plan) -> None:
    tried = {candidate.label for candidate in found.candidates}
    for workload in LOADS:
        assert {each.label for each in twofold.plan(workload, **ASKED).candidates[:EACH]} <= tried


def test_goodputs_and_bounds_are_those_of_the_first_workload(found: Plan) -> None:
    assert found.workload.name == "prompts"
    assert found.regret is not None
    cells = {str(row.deployment): row.cells[0].found for row in found.regret.rows}
    alone = {each.label: each for each in twofold.plan(LOADS[0], **ASKED).candidates}
    for candidate in found.candidates:
        assert candidate.found == cells[str(candidate.deployment)]
        assert candidate.found.rate <= candidate.bound
    shared = [candidate for candidate in found.candidates if candidate.label in alone]
    assert shared
    for candidate in shared:
        assert candidate.bound == pytest.approx(alone[candidate.label].bound, rel=0.03)


def test_one_workload_regrets_nothing() -> None:
    only = plan_robustly(LOADS[:1], **ASKED)
    assert only.regret is not None
    assert only.regret.least_regret.worst == 0.0


def test_the_cost_model_tells_worst_regrets_apart_as_far_as_it_knows_their_steps(found: Plan) -> None:
    tables = Tables(
        dense=((1.0, 8e-3), (512.0, 30e-3), (2048.0, 110e-3)),
        prompts=(Straight(16.0, 1e-4, 1e-7), Straight(2048.0, 1e-3, 4e-6)),
        decodes=(Straight(1.0, 1e-4, 1e-7), Straight(64.0, 1e-3, 1e-6)),
        residuals={"prompt": 0.1, "decode": 0.1, "mixed": 0.1},
    )
    costs = Measured("own.json", {Key("Llama-3-8B", "H100", 1, "bf16"): tables})
    doubted = plan_robustly(LOADS, **ASKED | {"slo": "ttft<=1s, tpot<=60ms @90%"}, roofline=costs)
    assert doubted.regret is not None
    shares = sorted((1.0 - row.worst for row in doubted.regret.rows), reverse=True)
    for rank, candidate in enumerate(doubted.candidates):
        assert candidate.cost_error == pytest.approx(0.1)
        spreads = [COVERED * 0.1 * math.hypot(share, shares[rank]) for share in shares]
        near = [abs(share - shares[rank]) <= spread for share, spread in zip(shares, spreads, strict=True)]
        assert candidate.not_told_from == tuple(i + 1 for i, is_near in enumerate(near) if is_near and i != rank)
    assert any(candidate.not_told_from for candidate in doubted.candidates)
    assert all(candidate.cost_error is None for candidate in found.candidates)


def test_only_the_highest_rate_is_planned_robustly() -> None:
    with pytest.raises(SpecError, match="objective"):
        plan_robustly(LOADS, **ASKED, objective="goodput-per-gpu")
