"""The curves over the rate and the distributions, one line a kind."""

import math
from typing import Any

import altair as alt
import polars as pl

from twofold.plan.report.drawing import TEXT_PX, Drawing, Size
from twofold.plan.report.evidence import LOADS, Evidence
from twofold.plan.report.kinds import LOOKS
from twofold.plan.report.palette import FAINT, LIMIT, MUTED, PAPER
from twofold.plan.report.places import apart, even_ticks, log_ticks
from twofold.plan.report.words import METRICS, milliseconds, number, percent

AXES_PX = 58
LABEL_PX, KEY_PX, LINE_PX = 96, 170, 16


def curve_drawings(evidence: Evidence) -> list[Drawing]:
    """SLO attainment, and requests/s within the SLO, against the offered rate."""
    best, rate = evidence.champions[0], number(evidence.rate)
    return [
        Drawing(
            "attainment",
            f"Share of {evidence.judged}",
            f"Lines over the offered rate, one for each kind. {best.name} keeps {percent(evidence.target)} up to "
            f"{rate} requests a second. The table below has the numbers.",
            lambda size: _curves(evidence, size, "share"),
        ),
        Drawing(
            "goodput",
            "Requests/s that keep every limit",
            f"Lines over the offered rate, one for each kind, with the offered rate itself as the ceiling. {best.name} "
            "follows it furthest. The table below has the numbers.",
            lambda size: _curves(evidence, size, "within"),
        ),
    ]


def distribution_drawings(evidence: Evidence) -> list[Drawing]:
    """The cumulative distribution of each metric at the goodput of the best, with the limits of the SLO."""
    metrics = evidence.distributions["metric"].unique(maintain_order=True).to_list()
    return [
        Drawing(
            f"distribution-{metric}",
            f"{METRICS[metric]} at {number(evidence.rate)} requests/s",
            f"Cumulative distributions of {METRICS[metric]} in milliseconds, one line for each kind. "
            "The table below has their percentiles.",
            lambda size, metric=metric: _distribution(evidence, metric, size),  # type: ignore[misc]
        )
        for metric in metrics
    ]


def kinds_of(evidence: Evidence) -> list[str]:
    """The kinds that are drawn, the best first."""
    return [champion.kind for champion in evidence.champions]


def colour(kinds: list[str], legend: alt.Legend | None = None) -> alt.Color:
    """The colour of a kind; lines need no legend, for they are labelled where they are."""
    scale = alt.Scale(domain=kinds, range=[LOOKS[kind].light for kind in kinds])
    return alt.Color("kind:N", scale=scale, legend=legend)


def shape(kinds: list[str], legend: alt.Legend | None = None) -> alt.Shape:
    """The point of a kind."""
    return alt.Shape(
        "kind:N", scale=alt.Scale(domain=kinds, range=[LOOKS[kind].point for kind in kinds]), legend=legend
    )


def dashes(kinds: list[str]) -> alt.StrokeDash:
    """The dashes of a kind."""
    ranges = [list(LOOKS[kind].dash) or [1, 0] for kind in kinds]
    return alt.StrokeDash("kind:N", scale=alt.Scale(domain=kinds, range=ranges), legend=None)


def fitted(chart: alt.LayerChart, size: Size) -> alt.LayerChart:
    """A chart whose axes are within ``size``."""
    fit = alt.AutoSizeParams(type="fit", contains="padding")
    return chart.properties(width=size.width, height=size.height, autosize=fit)


def rimmed(text: alt.Chart, colour: Any, **mark: Any) -> alt.LayerChart:
    """Text with a rim of paper, readable over a line."""
    mark = {"fontSize": TEXT_PX} | mark
    rim = text.mark_text(**mark, stroke=PAPER.light, strokeWidth=4, strokeJoin="round", color=PAPER.light)
    return rim + text.mark_text(**mark).encode(color=colour)


def _curves(evidence: Evidence, size: Size, column: str) -> alt.LayerChart:
    kinds, frame = kinds_of(evidence), evidence.curves
    first, last = LOADS[0] * evidence.rate, LOADS[-1] * evidence.rate
    plot = size.width - AXES_PX
    end = last + (last - first) * LABEL_PX / (plot - LABEL_PX)
    highest = float(frame[column].max() or 0.0)  # type: ignore[arg-type]
    top = max(1.0, highest) if column == "share" else 1.12 * (highest or 1.0)
    ticks = even_ticks(first, last, 5 if size.narrow else 7)
    x = alt.X(
        "rate:Q",
        scale=alt.Scale(domain=[first, end], nice=False),
        axis=alt.Axis(values=ticks, title="offered rate, requests/s", grid=False, format=",~r"),
    )
    y_axis = alt.Axis(title=None, tickCount=5, format="%" if column == "share" else ",~r")
    y = alt.Y(f"{column}:Q", scale=alt.Scale(domain=[0, top], nice=False), axis=y_axis)
    base = alt.Chart(frame).encode(x=x, y=y, color=colour(kinds))
    lines = base.mark_line(strokeWidth=2, clip=True).encode(strokeDash=dashes(kinds))
    points = base.mark_point(filled=True, size=34, opacity=1).encode(shape=shape(kinds))
    ends = float(frame.filter(pl.col("rate") == frame["rate"].max())[column].max())  # type: ignore[arg-type]
    labels = _end_labels(frame, kinds, column, top * LINE_PX / (size.height - AXES_PX), top)
    text = alt.Chart(labels).encode(x=x, y=y, text="kind:N", color=colour(kinds))
    mark = {"align": "left", "dx": 8, "fontSize": TEXT_PX, "fontWeight": "bold"}
    reference = _target(evidence, y, ends) if column == "share" else _offered(first, min(last, 0.96 * top), x, y)
    return fitted(alt.layer(reference, lines, points, text.mark_text(**mark)), size)


def _end_labels(frame: pl.DataFrame, kinds: list[str], column: str, gap: float, top: float) -> pl.DataFrame:
    """Where the name of each kind stands beside the end of its line; ties in the order of the lines before."""
    ends = frame.group_by("kind", maintain_order=True).agg(
        pl.col("rate", column).last(), pl.col(column).mean().alias("all")
    )
    wanted = [end + 1e-6 * mean for end, mean in zip(ends[column], ends["all"], strict=True)]
    return ends.with_columns(pl.Series(column, apart(wanted, gap, 0.0, top)))


def _target(evidence: Evidence, y: alt.Y, ends: float) -> alt.LayerChart:
    """The demanded share, named on the right, or on the left where a line ends at the height of the name."""
    base = alt.Chart(pl.DataFrame({"share": [evidence.target]})).encode(y=y)
    rule = base.mark_rule(strokeDash=[4, 3], color=LIMIT.light)
    words = f"{evidence.target * 100:g}% demanded"
    free = ends < evidence.target - 0.1
    mark = {"align": "right", "dy": -8} if free else {"align": "left", "dx": 2, "dy": 10}
    text = base.mark_text(**mark, fontSize=TEXT_PX, color=MUTED.light, text=words)
    return rule + text.encode(x=alt.value("width" if free else 0))


def _offered(first: float, last: float, x: alt.X, y: alt.Y) -> alt.LayerChart:
    frame = pl.DataFrame({"rate": [first, last], "within": [first, last]})
    line = alt.Chart(frame).mark_line(strokeDash=[4, 3], strokeWidth=1, color=FAINT.light).encode(x=x, y=y)
    end = alt.Chart(frame.tail(1)).encode(x=x, y=y)
    return line + end.mark_text(
        align="right", dx=-12, dy=-5, fontSize=TEXT_PX, color=MUTED.light, text="all that is offered"
    )


def _distribution(evidence: Evidence, metric: str, size: Size) -> alt.LayerChart:
    kinds = kinds_of(evidence)
    frame = evidence.distributions.filter(pl.col("metric") == metric).with_columns(ms=pl.col("seconds") * 1e3)
    limits = limits_on(evidence, metric)
    low, high = _domain([*frame["ms"].to_list(), *(limit for limit, _ in limits)])
    x = alt.X(
        "ms:Q",
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=alt.Axis(values=log_ticks(low, high, 5 if size.narrow else 8), title="ms", grid=False, format=",~r"),
    )
    y = alt.Y(
        "share:Q",
        scale=alt.Scale(domain=[0, 1], nice=False),
        axis=alt.Axis(title=None, values=[0, 0.25, 0.5, 0.75, 0.9, 1], format="%"),
    )
    lines = alt.Chart(frame).mark_line(strokeWidth=2, clip=True, interpolate="monotone")
    lines = lines.encode(x=x, y=y, color=colour(kinds), strokeDash=dashes(kinds))
    corner = _key(evidence, frame, (low, high), size)
    text = alt.Chart(corner).encode(x=x, y=y, text="text:N")
    align = "left" if corner["ms"][0] == low else "right"
    key = rimmed(text, colour(kinds), align=align, dx=6 if align == "left" else -2, fontWeight="bold")
    return fitted(alt.layer(*_rules(limits, x), lines, key), size)


def limits_on(evidence: Evidence, metric: str) -> list[tuple[float, str]]:
    """The limits of the SLO on ``metric``: milliseconds, and what to write beside the rule."""
    slo = evidence.plan.slo
    found = [(limit * 1e3, "limit") for name, limit in slo.limits.items() if name == metric]
    found += [(each.limit_s * 1e3, f"P{each.percentile:g} limit") for each in slo.percentiles if each.metric == metric]
    return [(limit, f"{name} {limit:g} ms") for limit, name in found]


def _domain(values: list[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    stretch = max(high / low, 1.5) ** 0.06
    return low / stretch, high * stretch


def _rules(limits: list[tuple[float, str]], x: alt.X) -> list[alt.Chart | alt.LayerChart]:
    drawn: list[alt.Chart | alt.LayerChart] = []
    for row, (limit, words) in enumerate(limits):
        base = alt.Chart(pl.DataFrame({"ms": [limit]})).encode(x=x)
        drawn.append(base.mark_rule(strokeDash=[4, 3], color=LIMIT.light))
        text = base.encode(y=alt.value(-8 - LINE_PX * row))
        drawn.append(text.mark_text(fontSize=TEXT_PX, color=MUTED.light, text=words))
    return drawn


def _key(evidence: Evidence, frame: pl.DataFrame, span: tuple[float, float], size: Size) -> pl.DataFrame:
    """The kinds with their P99, the smallest on top: ``text``, ``ms`` and ``share`` in the corner with fewer lines.

    A cumulative distribution leaves two corners empty: above the rise of the curves, and below it.
    """
    found = evidence.percentiles.filter(pl.col("metric") == frame["metric"][0]).sort("p99")
    texts = [f"{kind}: P99 {milliseconds(p99)} ms" for kind, p99 in found.select("kind", "p99").iter_rows()]
    line, width = LINE_PX / (size.height - AXES_PX), KEY_PX / (size.width - AXES_PX)
    across = (frame["ms"] / span[0]).log() / math.log(span[1] / span[0])
    above = frame.filter((across < width) & (frame["share"] > 0.96 - line * len(texts)))
    below = frame.filter((across > 1 - width) & (frame["share"] < 0.04 + line * len(texts)))
    on_top = len(above) < len(below)
    first = 0.96 if on_top else 0.04 + line * (len(texts) - 1)
    return found.select("kind", pl.lit(span[0] if on_top else span[1]).alias("ms")).with_columns(
        pl.Series("text", texts), pl.Series("share", [first - line * row for row in range(len(texts))])
    )
