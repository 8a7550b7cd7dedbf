"""Predicted over measured as a picture: points on equal logarithmic axes, the diagonal, and 10 % to either side."""

import math
from collections.abc import Sequence
from html import escape

from twofold.plan.report.palette import FAINT, GRID, INK, LIMIT, MUTED, PAPER, PHASES
from twofold.validate.evidence import Cloud, Unit

SIDE, LEFT, BELOW, TOP = 360, 76, 40, 30
ROOM = 1.15
POINT = 2.5
COLOURS = tuple(
    shade.light for shade in (PHASES["prefill"], PHASES["stall"], PHASES["transfer"], PHASES["queued"], LIMIT)
)


def scatter(cloud: Cloud) -> str:
    """The picture of ``cloud`` as SVG, with a title and a description for those who cannot see it."""
    values = [*cloud.predicted, *cloud.measured]
    positive = [number for number in values if number > 0.0] or [1.0]
    low, high = min(positive) / ROOM, max(positive) * ROOM
    kinds = list(dict.fromkeys(cloud.kinds))
    points = "".join(
        f'<circle cx="{_x(measured, low, high):.1f}" cy="{_y(predicted, low, high):.1f}" r="{POINT}" '
        f'fill="{COLOURS[kinds.index(kind) % len(COLOURS)]}" fill-opacity="0.6"/>'
        for predicted, measured, kind in zip(cloud.predicted, cloud.measured, cloud.kinds, strict=True)
        if predicted > 0.0 and measured > 0.0
    )
    inside = "".join((_axes(low, high, cloud), _band(low, high), points, _legend(kinds)))
    height = TOP + SIDE + BELOW + 16 * len(kinds)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + SIDE + 10}" height="{height}" '
        f'viewBox="0 0 {LEFT + SIDE + 10} {height}" role="img" font-family="sans-serif" font-size="12">'
        f"<title>{escape(cloud.title)}: predicted over measured</title>"
        f"<desc>{len(cloud.measured)} points around the diagonal; the lines beside it are 10 % away.</desc>"
        f'<rect width="100%" height="100%" fill="{PAPER.light}"/>'
        f'<text x="{LEFT}" y="18" fill="{INK.light}" font-weight="bold">{escape(cloud.title)}</text>{inside}</svg>\n'
    )


def _x(number: float, low: float, high: float) -> float:
    return LEFT + SIDE * math.log(number / low) / math.log(high / low)


def _y(number: float, low: float, high: float) -> float:
    return TOP + SIDE - SIDE * math.log(number / low) / math.log(high / low)


def _ticks(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [step * 10.0**decade for decade in decades for step in (1, 2, 5)]
    kept = [tick for tick in found if low <= tick <= high]
    return kept if len(kept) <= 8 else [tick for tick in kept if math.log10(tick) % 1.0 < 1e-9]


def _named(tick: float, unit: Unit) -> str:
    if unit == "s":
        return f"{1e3 * tick:,g} ms" if tick < 1.0 else f"{1e3 * tick:,.0f} ms"
    return f"{100 * tick:g} %" if unit == "share" else f"{tick:,.0f} {unit}".rstrip()


def _axes(low: float, high: float, cloud: Cloud) -> str:
    drawn = []
    for tick in _ticks(low, high):
        x, y, text = _x(tick, low, high), _y(tick, low, high), escape(_named(tick, cloud.unit))
        drawn.append(
            f'<path d="M{x:.1f} {TOP}V{TOP + SIDE}M{LEFT} {y:.1f}H{LEFT + SIDE}" stroke="{GRID.light}"/>'
            f'<text x="{x:.1f}" y="{TOP + SIDE + 16}" text-anchor="middle" fill="{MUTED.light}">{text}</text>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="{MUTED.light}">{text}</text>'
        )
    middle = LEFT + SIDE / 2
    drawn.append(
        f'<text x="{middle}" y="{TOP + SIDE + 33}" text-anchor="middle" fill="{MUTED.light}">measured</text>'
        f'<text x="{LEFT}" y="{TOP - 2}" fill="{MUTED.light}" font-size="10">predicted</text>'
    )
    return "".join(drawn)


def _band(low: float, high: float) -> str:
    return "".join(
        f'<path d="M{_x(start, low, high):.1f} {_y(start * factor, low, high):.1f}'
        f'L{_x(end, low, high):.1f} {_y(end * factor, low, high):.1f}" stroke="{colour}" fill="none"{dash}/>'
        for factor, colour, dash in (
            (1.0, LIMIT.light, ""),
            (0.9, FAINT.light, ' stroke-dasharray="4 4"'),
            (1.1, FAINT.light, ' stroke-dasharray="4 4"'),
        )
        for start, end in [(max(low, low / factor), min(high, high / factor))]
    )


def _legend(kinds: Sequence[str]) -> str:
    return "".join(
        f'<circle cx="{LEFT + 6}" cy="{TOP + SIDE + BELOW + 6 + 16 * row}" r="4" fill="{COLOURS[row % len(COLOURS)]}"/>'
        f'<text x="{LEFT + 16}" y="{TOP + SIDE + BELOW + 10 + 16 * row}" fill="{INK.light}">{escape(kind)}</text>'
        for row, kind in enumerate(kinds)
    )
