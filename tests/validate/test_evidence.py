"""Lines, their goals, and how they are shown."""

import json

import pytest

from twofold.validate.evidence import MeasuredSet, Report, cloud, compared, mean_absolute
from twofold.validate.html import html
from twofold.validate.markdown import markdown
from twofold.validate.scatter import LEFT, SIDE, TOP
from twofold.validate.words import cells, verdict

LINES = (
    compared("TTFT mean", 1.02, 1.0, "s", 0.03, "another -4.0 %"),
    compared("TPOT mean", 0.9, 1.0, "s", 0.03),
    mean_absolute("TPOT", [1.1, 0.8], [1.0, 1.0], 0.2),
    compared("KV", 90.0, 100.0, "tokens"),
)
SET = MeasuredSet(
    "made.one", "A <made> set", "By a rule.", LINES, (cloud("points", "s", [1, 2], [1, 2.5], "x"),), ("Why.",)
)
REPORT = Report((SET,), {"other": "not there"})


def test_errors_and_goals():
    assert [round(line.error, 6) for line in LINES] == [0.02, -0.1, 0.15, -0.1]
    assert [line.met for line in LINES] == [True, False, True, None]
    assert verdict(LINES) == "2 of 3 goals met"
    assert verdict(LINES[3:]) == "no goal was set"


def test_cells():
    assert cells(LINES[0]) == ("TTFT mean", "1,020.0 ms", "1,000.0 ms", "+2.0 %", "3.0 %", "met", "another -4.0 %")
    assert cells(LINES[2])[:4] == ("TPOT, mean absolute error of 2", "–", "–", "15.0 %")
    assert cells(LINES[3])[1:6] == ("90 tokens", "100 tokens", "-10.0 %", "–", "")


def test_json_has_every_line_with_its_verdict():
    found = json.loads(json.dumps(REPORT.to_dict()))
    assert [line["met"] for line in found["sets"][0]["lines"]] == [True, False, True, None]
    assert found["skipped"] == {"other": "not there"}


def test_the_markdown_page_has_every_line():
    page = markdown(REPORT)
    assert "## A <made> set" in page
    assert "| TPOT mean | 900.0 ms | 1,000.0 ms | -10.0 % | 3.0 % | missed | – |" in page
    assert "Why." in page
    assert "- `other`: not there" in page


def test_the_html_page_is_escaped_and_has_a_point_for_each():
    page = html(REPORT)
    assert "A &lt;made&gt; set" in page
    assert page.count('r="2.5"') == 2
    assert page.count("<svg") == page.count("</svg>") == 1
    assert "NaN" not in page.replace("nan", "NaN")


def test_a_point_on_the_diagonal_is_drawn_there():
    page = html(Report((MeasuredSet("a", "b", "c", (), (cloud("d", "s", [2.0], [2.0], "x"),)),)))
    x, y = (float(page.split(f'{name}="')[1].split('"')[0]) for name in ("cx", "cy"))
    assert x - LEFT == pytest.approx(TOP + SIDE - y, abs=0.2)


def test_points_without_a_size_are_left_out():
    page = html(Report((MeasuredSet("a", "b", "c", (), (cloud("d", "s", [0.0, 1.0], [1.0, 1.0], "x"),)),)))
    assert page.count('r="2.5"') == 1
