"""The Pareto pictures: what a request/s costs in dollars and in energy against the tails."""

import math

import altair as alt
import polars as pl

from twofold.plan.report.charts import AXES_PX, LINE_PX, colour, fitted, kinds_of, rimmed, shape
from twofold.plan.report.drawing import Drawing, Size
from twofold.plan.report.evidence import Evidence
from twofold.plan.report.front import on_front
from twofold.plan.report.palette import FAINT, INK
from twofold.plan.report.places import log_ticks

COSTS = {"usd": "$ an hour for each request/s", "joules": "joules a request"}
TAILS = {"ttft_p99": "P99 TTFT", "tbt_p99": "P99 TBT"}
LABEL_ROOM, LINE_ROOM = {False: 0.3, True: 0.36}, 0.1
"""Shares of the axes left free for names, across in a wide and in a narrow picture, and up."""
CHARACTER_PX, POINT_PX = 6.6, 10
Span = tuple[float, float]


def tradeoff_drawings(evidence: Evidence) -> list[Drawing]:
    """Each cost against each tail; without prices only the energy."""
    return [
        Drawing(
            f"pareto-{cost}-{tail}".replace("_p99", ""),
            f"{TAILS[tail]} against {COSTS[cost]}",
            f"Points, one for each measured deployment, with the front of those that no other beats in both: "
            f"{', '.join(front_of(evidence, cost, tail)['deployment'].head(6))}.",
            lambda size, cost=cost, tail=tail: _tradeoff(evidence, cost, tail, size),  # type: ignore[misc]
        )
        for cost in priced(evidence)
        for tail in TAILS
    ]


def priced(evidence: Evidence) -> list[str]:
    """The costs that there is something to say about: a device may have no price."""
    return [cost for cost in COSTS if (evidence.tails[cost] > 0).all()]


def front_of(evidence: Evidence, cost: str, tail: str) -> pl.DataFrame:
    """The deployments that no other beats in both ``cost`` and ``tail``, the cheapest first."""
    front = on_front(evidence.tails.select(cost, tail).to_numpy())
    return evidence.tails.filter(pl.Series(front)).unique([cost, tail], maintain_order=True).sort(cost)


def _tradeoff(evidence: Evidence, cost: str, tail: str, size: Size) -> alt.LayerChart:
    kinds, milliseconds = kinds_of(evidence), (pl.col(tail) * 1e3).alias("ms")
    frame = evidence.tails.filter(pl.col(tail).is_finite() & (pl.col(tail) > 0)).with_columns(milliseconds)
    front = front_of(evidence, cost, tail).with_columns(milliseconds)
    across, up = _span(frame[cost], LABEL_ROOM[size.narrow]), _span(frame["ms"], LINE_ROOM)
    x = _axis(f"{cost}:Q", across, COSTS[cost], 5 if size.narrow else 8)
    y = _axis("ms:Q", up, f"{TAILS[tail]}, ms", 6)
    here = {"x": alt.X(**x), "y": alt.Y(**y)}
    points = alt.Chart(frame).mark_point(filled=True, size=44, opacity=0.75)
    legend = alt.Legend(columns=3 if size.narrow else len(kinds))
    points = points.encode(**here, color=colour(kinds, legend), shape=shape(kinds, legend))
    step = alt.Chart(front).mark_line(interpolate="step-after", color=FAINT.light, strokeWidth=1.2).encode(**here)
    ring = alt.Chart(frame.filter(pl.col("rank") == 1)).mark_point(size=150, color=INK.light, strokeWidth=1.5)
    text = alt.Chart(_named(front, cost, across, up, size)).encode(**here, text="deployment:N")
    names = rimmed(text, alt.value(INK.light), align="right", dx=-8, dy=10)
    return fitted(alt.layer(step, points, ring.encode(**here), names), size)


def _span(values: pl.Series, room: float) -> tuple[float, float]:
    """The ends of a logarithmic axis, with ``room`` of its length free below the smallest value, for names."""
    low, high = float(values.min()), float(values.max()) * 1.12  # type: ignore[arg-type]
    return low / (max(high / low, 1.3) ** (room / (1.0 - room))), high


def _axis(field: str, span: tuple[float, float], title: str, most: int) -> dict[str, object]:
    scale = alt.Scale(type="log", domain=list(span), nice=False)
    axis = alt.Axis(title=title, values=log_ticks(*span, most), format=",~r")
    return {"shorthand": field, "scale": scale, "axis": axis}


def _named(front: pl.DataFrame, cost: str, across: Span, up: Span, size: Size) -> pl.DataFrame:
    """The points of the front whose names do not overlap: the best, then the others from the cheapest on."""
    kept: list[tuple[float, float, float]] = []
    rows = []
    for row in front.sort(pl.col("rank") != 1, cost).iter_rows(named=True):
        right = _share(row[cost], across) * (size.width - AXES_PX)
        height = _share(row["ms"], up) * (size.height - AXES_PX)
        left = right - CHARACTER_PX * len(row["deployment"]) - POINT_PX
        if left >= 0 and all(right < low or left > high or abs(height - at) >= LINE_PX for low, high, at in kept):
            kept.append((left, right, height))
            rows.append(row)
    return pl.DataFrame(rows, schema=front.schema)


def _share(value: float, span: Span) -> float:
    return math.log(value / span[0]) / math.log(span[1] / span[0])
