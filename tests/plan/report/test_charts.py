import math

import polars as pl
import pytest

pytest.importorskip("altair")

import itertools

from twofold.plan.report import charts
from twofold.plan.report.drawing import Size

WIDE, NARROW = Size(520, 320), Size(342, 300)


def values_of(specification):
    return [row for rows in specification["datasets"].values() for row in rows]


def test_a_curve_for_each_kind_with_its_name_at_the_end(evidence):
    for drawing in charts.curve_drawings(evidence):
        rows = values_of(drawing.draw(WIDE).to_dict())
        for champion in evidence.champions:
            assert len([row for row in rows if row.get("kind") == champion.kind]) == len(charts.LOADS) + 1


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_names_at_the_ends_do_not_overlap(evidence, size):
    kinds = charts.kinds_of(evidence)
    gap = charts.LINE_PX / (size.height - charts.AXES_PX)
    labels = charts._end_labels(evidence.curves, kinds, "share", gap, 1.0)
    placed = sorted(labels["share"])
    assert all(high - low >= gap - 1e-9 for low, high in itertools.pairwise(placed))


def test_the_demanded_share_is_drawn(evidence):
    rows = values_of(charts.curve_drawings(evidence)[0].draw(WIDE).to_dict())
    assert {"share": 0.9} in rows


def test_limits_are_drawn_where_they_belong(evidence):
    assert charts.limits_on(evidence, "ttft") == [(500.0, "limit 500 ms")]
    assert charts.limits_on(evidence, "tpot") == [(20.0, "limit 20 ms")]
    assert charts.limits_on(evidence, "tbt") == []
    assert [each.name for each in charts.distribution_drawings(evidence)] == [
        "distribution-ttft",
        "distribution-tbt",
        "distribution-tpot",
    ]


@pytest.mark.parametrize("above", [True, False])
def test_the_key_stands_where_the_curves_are_not(evidence, above):
    """Curves that rise at the right leave the left upper corner, and the other way round."""
    frame = pl.DataFrame({"metric": "ttft", "ms": [900.0, 950.0] if above else [1.1, 1.2], "share": [0.1, 0.9]})
    key = charts._key(evidence, frame, (1.0, 1000.0), WIDE)
    assert (key["ms"][0] == 1.0) == above
    assert (key["share"] > 0.5).all() == above
    assert key["text"].to_list()[0].endswith("ms")
    assert not any(math.isnan(share) for share in key["share"])


@pytest.mark.parametrize(("ends", "align"), [(0.2, "right"), (1.0, "left")])
def test_the_demanded_share_is_named_away_from_the_ends_of_lines(evidence, ends, align):
    drawn = charts._target(evidence, charts.alt.Y("share:Q"), ends).to_dict()
    assert drawn["layer"][1]["mark"]["align"] == align
