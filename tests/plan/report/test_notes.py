from dataclasses import replace

import pytest

from twofold.plan.report import notes
from twofold.spec.slo import Slo

FOUND = {"candidates": 153, "pruned_by_bound": 120, "pruned_by_probe": 13, "measured": 20, "gap": 0.0, "stopped": None}


def test_a_gap_of_nothing_is_certain():
    assert notes.headline_of(FOUND) == "best of 153"
    assert "120 ruled out by a bound, 13 by one probe, 20 measured" in notes.certificate(FOUND)
    assert notes.certificate(FOUND).endswith("the gap is 0.")


def test_a_search_that_stopped_says_how_far_it_may_be_off():
    stopped = FOUND | {"gap": 0.053, "stopped": "time"}
    assert notes.headline_of(stopped) == "within 5.3% of the best of 153"
    assert "stopped early (time)" in notes.certificate(stopped)
    assert "by more than 5.3%" in notes.certificate(stopped)


@pytest.mark.parametrize(
    ("slo", "text"),
    [
        ("ttft<=0.5s, tpot<=20ms @95%", "ttft ≤ 0.5s, tpot ≤ 20ms for 95% of requests"),
        ("p99 tbt<=100ms", "p99 tbt ≤ 0.1s"),
    ],
)
def test_an_slo_is_written_for_a_reader(slo, text):
    assert notes.readable(Slo.parse(slo)) == text


def test_kinds_without_a_champion_are_named(evidence):
    assert notes.missing(evidence) == "Not tried, or sustaining no rate: hybrid, request-level."
    assert "chunked, multiplexed" in notes.missing(replace(evidence, champions=[]))


def test_the_stall_is_told_in_numbers(evidence):
    text = notes.stall_note(evidence)
    for act in evidence.scene.acts:
        assert f"{act.longest_gap * 1e3:.3g}"[:2] in text
        assert str(act.deployment) in text


def test_all_constants_of_the_cost_model_are_told(evidence):
    told = dict(notes.assumptions(evidence))
    for name in ("flop_efficiency = 0.7", "byte_efficiency = 0.8", "step_overhead_s = 0.0005"):
        assert name in told["cost model"]
    assert "3,350 GB/s" in told["H100"]


def test_without_a_price_the_figure_is_energy(evidence, monkeypatch):
    assert notes.headlines(evidence)[-1][0] == "Cost"
    monkeypatch.setattr("twofold.plan.ranking.price_of", lambda deployment: 0.0)
    name, figure, _ = notes.headlines(replace(evidence, plan=replace(evidence.plan)))[-1]
    assert name == "Energy"
    assert figure.endswith("J a request")


def test_what_the_cost_model_cannot_tell_from_the_best_is_said_where_it_is_known(plan):
    row = plan.rows[0]
    assert "cost model" not in notes.interval_note(row)
    for others, told in (([2, 4], "cannot tell it from 2, 4."), ([], "tells it from the next ones.")):
        text = notes.interval_note(row | {"cost_error": 0.031, "not_told_from": others})
        assert text.startswith(notes.interval_note(row))
        assert text.endswith(f"within 3.1%, one standard deviation, and {told}")
