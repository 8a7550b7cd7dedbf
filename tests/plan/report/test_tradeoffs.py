from dataclasses import replace

import polars as pl
import pytest

pytest.importorskip("altair")

import itertools

from twofold.plan.report.drawing import HALF_PAGE, TELEPHONE
from twofold.plan.report.tradeoffs import AXES_PX, LINE_PX, _named, _share, front_of, tradeoff_drawings


def test_the_front_falls_as_the_cost_rises(evidence):
    for cost in ("usd", "joules"):
        for tail in ("ttft_p99", "tbt_p99"):
            front = front_of(evidence, cost, tail)
            assert front[cost].is_sorted()
            assert front[tail].is_sorted(descending=True)


def test_each_cost_is_drawn_against_each_tail(evidence):
    names = [drawing.name for drawing in tradeoff_drawings(evidence)]
    assert names == ["pareto-usd-ttft", "pareto-usd-tbt", "pareto-joules-ttft", "pareto-joules-tbt"]


def test_without_prices_only_the_energy_is_drawn(evidence):
    free = replace(evidence, tails=evidence.tails.with_columns(pl.lit(0.0).alias("usd")))
    assert [drawing.name for drawing in tradeoff_drawings(free)] == ["pareto-joules-ttft", "pareto-joules-tbt"]


@pytest.mark.parametrize("size", [HALF_PAGE, TELEPHONE], ids=["wide", "narrow"])
def test_names_of_points_do_not_overlap_and_the_best_keeps_its_own(size):
    rows = [
        {"rank": rank, "deployment": "2B,chunked=512", "usd": 1.0 + 0.02 * rank, "ms": 100.0 / rank}
        for rank in range(1, 30)
    ]
    across, up = (0.5, 2.0), (2.0, 120.0)
    named = _named(pl.DataFrame(rows), "usd", across, up, size)
    assert named["rank"][0] == 1
    assert 1 < named.height < 29
    heights = sorted(_share(ms, up) * (size.height - AXES_PX) for ms in named["ms"])
    assert all(high - low >= LINE_PX for low, high in itertools.pairwise(heights))
