"""Small pictures within text and tables, drawn by hand: the mark of a kind, and a goodput with its interval."""

from html import escape

from twofold.plan.report.kinds import LOOKS
from twofold.plan.report.palette import INK, Shade

POINTS = {
    "circle": '<circle cx="7" cy="7" r="5" fill="{0}"/>',
    "square": '<rect x="2.5" y="2.5" width="9" height="9" fill="{0}"/>',
    "diamond": '<path d="M7 1l6 6-6 6-6-6z" fill="{0}"/>',
    "triangle-up": '<path d="M7 2l6 10H1z" fill="{0}"/>',
    "triangle-down": '<path d="M7 12L1 2h12z" fill="{0}"/>',
    "triangle-right": '<path d="M2 1l10 6-10 6z" fill="{0}"/>',
    "cross": '<path d="M5 1h4v4h4v4H9v4H5V9H1V5h4z" fill="{0}"/>',
}
BAR_WIDTH, BAR_HEIGHT = 132, 16


def kind_mark(kind: str) -> str:
    """The point of a kind in its colour, as it stands in every picture."""
    look = LOOKS[kind]
    return _svg(14, 14, POINTS[look.point].format(look.light), "mark")


def swatch(shade: Shade) -> str:
    """A square of a colour."""
    return _svg(14, 14, f'<rect x="1" y="1" width="12" height="12" rx="2" fill="{shade.light}"/>', "mark")


def kind_name(kind: str) -> str:
    """The mark of a kind and its name."""
    return f'<span class="kind">{kind_mark(kind)} {escape(kind)}</span>'


def interval_bar(value: float, low: float | None, high: float | None, top: float, kind: str) -> str:
    """A bar for ``value`` on a scale that ends at ``top``, with a whisker from ``low`` to ``high`` where known."""
    scale = (BAR_WIDTH - 2) / top if top else 0.0
    drawn = (
        f'<rect y="3" width="{value * scale:.1f}" height="10" rx="1.5" fill="{LOOKS[kind].light}" fill-opacity="0.55"/>'
    )
    if low is not None and high is not None:
        left, right = low * scale, high * scale
        path = f"M{left:.1f} 8H{right:.1f}M{left:.1f} 4.5v7M{right:.1f} 4.5v7"
        drawn += f'<path d="{path}" stroke="{INK.light}" stroke-width="1.5" fill="none"/>'
    return _svg(BAR_WIDTH, BAR_HEIGHT, drawn, "bar")


def _svg(width: int, height: int, inside: str, name: str) -> str:
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<svg class="{name}" aria-hidden="true" focusable="false" {size}>{inside}</svg>'
