from dataclasses import replace
from typing import Any

import pytest

import twofold
from twofold.cli.ranking import headline, interval, plan_report, proof, ranking, traps, untold
from twofold.plan.goodput import Goodput
from twofold.plan.objective import Objective
from twofold.plan.ranking import Candidate, Certificate, Plan
from twofold.plan.resources import parse_resources
from twofold.plan.robust import Cell, Regret, RegretRow
from twofold.spec import catalog
from twofold.spec.slo import Slo
from twofold.spec.synthetic import Synthetic

SURE = Certificate(1500, 1200, 290, 10, 0.0)
SLO = Slo.parse("ttft<=1s, tpot<=50ms @90%")


def candidate(text: str, rate: float, **known: Any) -> Candidate:
    deployment = twofold.deployment(text, model="llama-3-8b", device="H100")
    return Candidate(deployment, Goodput(rate, 0.93, "ttft", 9), 2 * rate, "prefill compute", **known)


FIRST = candidate("2B", 12.0, low=11.4, high=12.6, swaps_with=(2,), confirmed=True)
SECOND = candidate("1P1D", 11.8, low=11.0, high=12.6, swaps_with=(1,), trap=30.0, confirmed=True)
THIRD = candidate("1B", 6.0)


@pytest.fixture(scope="module")
def found() -> Plan:
    workload = Synthetic(rate=5, requests=100, prompt="fixed:700", output="fixed:50", seed=1).workload()
    return Plan(
        candidates=[FIRST, SECOND, THIRD],
        model=catalog.model("llama-3-8b"),
        resources=parse_resources("2xH100"),
        slo=SLO,
        workload=workload,
        objective=Objective(),
        certificate=SURE,
    )


def test_the_headline_says_what_was_planned_for(found: Plan) -> None:
    assert headline(found).splitlines()[1] == "Llama-3-8B on 2xH100: ttft<=1s, tpot<=50ms @90%; for goodput"
    aimed = replace(found, objective=Objective("cost", 40.0))
    assert headline(aimed).endswith("; for cost at 40.0 req/s")


def test_a_line_has_the_goodput_its_interval_its_price_and_its_rivals(found: Plan) -> None:
    first, second, third = ranking(found.rows, 10).splitlines()[1:]
    assert first.split()[:6] == ["1", FIRST.label, "12.0", "11.4", "to", "12.6"]
    assert [line.rstrip().count("█") for line in (first, third)] == [12, 6]
    assert second.split("ttft")[1].split()[0] == "1"
    assert third.split("ttft")[1].split()[0] == "–"


def test_only_the_top_is_listed_and_bars_are_shares_of_the_highest_goodput(found: Plan) -> None:
    assert len(ranking(found.rows, 2).splitlines()) == 3
    turned = ranking(found.rows[::-1], 3).splitlines()[1:]
    assert [line.rstrip().count("█") for line in turned] == [6, 11, 12]


def test_no_rival_is_told_from_not_known() -> None:
    alone = ranking([replace(FIRST, swaps_with=()).row()], 1)
    assert "none" in alone
    assert interval(THIRD.row()) == "–"


def test_what_the_cost_model_cannot_tell_apart_has_a_column_and_a_line(found: Plan) -> None:
    first = replace(FIRST, cost_error=0.03, not_told_from=(2,))
    second = replace(SECOND, cost_error=0.05, not_told_from=(1,))
    doubted = replace(found, candidates=[first, second, replace(THIRD, cost_error=0.04), candidate("1B,mixed", 5.0)])
    head, *lines = ranking(doubted.rows, 4).splitlines()
    assert head.split("may swap with")[1].split() == ["not", "told", "from"]
    cells = [line.split("ttft")[1].split()[:2] for line in lines]
    assert cells == [["2", "2"], ["1", "1"], ["–", "none"], ["–", "–"]]
    assert "±3.0 % to ±5.0 %" in plan_report(doubted, 1)
    assert "±3.0 %, one" in untold(doubted.rows[:1])
    assert "cannot tell a worst regret from those" in untold(doubted.rows, "worst regret")


def test_a_cost_model_that_says_nothing_of_its_errors_has_neither(found: Plan) -> None:
    assert untold(found.rows) == ""
    assert "not told from" not in plan_report(found, 3)


@pytest.mark.parametrize("objective", ["goodput", "goodput-per-dollar"])
def test_columns_of_words_are_flush_left(objective: str) -> None:
    rows = [replace(FIRST, cost_error=0.03, not_told_from=(2, 3)).row(), replace(SECOND, cost_error=0.03).row()]
    head, first, second = ranking(rows, 2, objective).splitlines()
    for name in ("deployment", "limited by", "may swap with", "not told from"):
        place = head.index(name)
        assert first[place - 1] == second[place - 1] == " "
        assert first[place] != " " != second[place]


def test_a_front_shows_the_tails_that_it_is_a_front_of() -> None:
    rows = [replace(FIRST, tails=(0.25, 0.0125)).row(), replace(SECOND, tails=(float("inf"), 0.02)).row()]
    head, first, second = ranking(rows, 2, "pareto").splitlines()
    for name, cells in (("P99 TTFT, ms", ("250.0", "inf")), ("P99 TBT, ms", ("12.5", "20.0"))):
        end = head.index(name) + len(name)
        assert tuple(line[:end].split()[-1] for line in (first, second)) == cells
    assert "P99" not in ranking(rows, 2)


def test_the_proof_counts_what_became_of_the_candidates(found: Plan) -> None:
    assert proof(found) == (
        f"{FIRST.label} is the best of 1,500: 1,200 ruled out by their bound, 290 by simulation, 10 measured; gap 0."
    )


@pytest.mark.parametrize(
    ("stopped", "gap", "confirmed", "told"),
    [
        ("time", 0.125, True, "stopped by --time: it is within 12.5 % of the best."),
        ("interrupted", 0.0, True, "interrupted, but the best is proved: gap 0."),
        ("interrupted", 0.0, False, "before a longer replay has confirmed its goodput: none is above it."),
        ("time", 0.3, False, "before a longer replay has confirmed its goodput: none is more than 30.0 % above it."),
    ],
)
def test_an_early_end_says_what_is_proved(found: Plan, stopped: str, gap: float, confirmed: bool, told: str) -> None:
    early = replace(
        found,
        candidates=[replace(FIRST, confirmed=confirmed)],
        certificate=replace(SURE, stopped=stopped, gap=gap),
    )
    assert proof(early).endswith(told)


def test_a_search_that_had_no_time_to_list_does_not_say_how_far_it_is(found: Plan) -> None:
    early = replace(found, certificate=replace(SURE, stopped="time", gap=float("inf"), whole=False))
    assert "the best of 1,500 or more: " in proof(early)
    assert proof(early).endswith("stopped by --time before all had a bound: how far it is from the best is not known.")


def test_traps_are_named_with_their_rank(found: Plan) -> None:
    assert f"{SECOND.label} (rank 2) at 30.0 req/s" in traps(found.rows)
    assert traps(found.rows[:1]) == ""
    assert "Trap" not in plan_report(found, 1)
    assert plan_report(found, 3).endswith(traps(found.rows))


def test_a_robust_plan_does_not_call_its_first_the_best_of_all(found: Plan) -> None:
    row = RegretRow(FIRST.deployment, (Cell(FIRST.found, 0.9), Cell(FIRST.found, 1.0)))
    robust = replace(found, regret=Regret(("a", "b"), SLO, (row,)))
    assert "is the best of" not in proof(robust)
    assert "least regretted" in proof(robust)
