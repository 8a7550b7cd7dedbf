from dataclasses import replace

import pytest

pytest.importorskip("altair")

from twofold.plan.report.tables import Html, front_table, interval, per_million, ranking, table


def test_text_is_escaped_and_html_is_not():
    made = table("<b>", ["<i>"], [["<u>"], [Html("<em>x</em>")]])
    assert "<b>" not in made
    assert "<i>" not in made
    assert "&lt;u&gt;" in made
    assert "<em>x</em>" in made


def test_a_million_requests_cost_what_the_hours_for_them_cost():
    assert per_million(36.0, 10.0) == pytest.approx(1000.0)
    assert per_million(0.0, 10.0) is None
    assert per_million(36.0, 0.0) is None


def test_an_interval_is_shown_where_there_is_one():
    assert interval(9.8, 9.5, 10.12) == "9.80 (9.50–10.1)"
    assert interval(9.8, None, None) == "9.80"


def with_candidates(evidence, **changes):
    candidates = [replace(candidate, **changes) for candidate in evidence.plan.candidates]
    return replace(evidence, plan=replace(evidence.plan, candidates=candidates))


def test_the_trap_and_the_ties_are_told(evidence):
    text = ranking(with_candidates(evidence, trap=77.0, swaps_with=(4, 5)))
    assert "<td>77.0</td>" in text
    assert "4, 5</td>" in text


def test_without_prices_and_intervals_there_are_dashes(evidence, monkeypatch):
    monkeypatch.setattr("twofold.plan.ranking.price_of", lambda deployment: 0.0)
    text = ranking(with_candidates(evidence, low=None, high=None))
    assert text.count("<td>–</td>") == 2 * len(evidence.plan.candidates)


def test_the_front_is_listed_with_its_ranks(evidence):
    listed = front_table(evidence)
    for row in evidence.tails.filter("front").iter_rows(named=True):
        assert row["deployment"] in listed
