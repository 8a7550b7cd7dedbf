"""A picture in two widths, and its way to SVG and PNG by vl-convert."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from twofold.errors import SpecError
from twofold.plan.report.palette import GRID, INK, MUTED, PAPER

if TYPE_CHECKING:
    import altair as alt

FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"
"""Faces of equal widths: text is measured here and set by the reader."""
TEXT_PX = 12
PNG_SCALE = 2.0
FILE_PX, PAGE_PX = 16, {"left": 2, "right": 6, "top": 8, "bottom": 2}
LOOK: dict[str, Any] = {
    "font": FONT,
    "axis": {
        "labelFontSize": TEXT_PX,
        "titleFontSize": TEXT_PX,
        "labelColor": MUTED.light,
        "titleColor": MUTED.light,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "gridColor": GRID.light,
        "domain": False,
        "ticks": False,
        "labelPadding": 6,
    },
    "legend": {
        "labelFontSize": TEXT_PX,
        "labelColor": INK.light,
        "title": None,
        "orient": "top",
        "symbolStrokeWidth": 0,
    },
    "title": {
        "anchor": "start",
        "color": INK.light,
        "fontSize": 14,
        "offset": 10,
        "subtitleColor": MUTED.light,
        "subtitleFontSize": TEXT_PX,
    },
    "view": {"stroke": None},
}
IDENTIFIER = re.compile(r'(\bid="|url\(#|href="#)([^")]+)')


class Size(NamedTuple):
    """Pixels of a picture as a whole, and whether it is the narrow one of a telephone."""

    width: int
    height: int

    @property
    def narrow(self) -> bool:
        """Whether there is no room beside the picture's own axes."""
        return self.width < 400


HALF_PAGE, TELEPHONE = Size(520, 320), Size(342, 300)


@dataclass(frozen=True)
class Drawing:
    """``draw(size)`` gives the picture; ``description`` says for those who cannot see it what it shows."""

    name: str
    title: str
    description: str
    draw: Callable[[Size], "alt.TopLevelMixin"]
    wide: Size = HALF_PAGE
    narrow: Size = TELEPHONE

    def inline(self, size: Size) -> str:
        """SVG to put into a page: no background, identifiers of its own, hidden from screen readers."""
        svg = _svg(themed(self.draw(size)))
        svg = _renamed(svg, f"{self.name}-{'narrow' if size.narrow else 'wide'}")
        svg = re.sub(r' (role|aria-[a-z]+)="[^"]*"', "", svg)
        return svg.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)

    def files(self) -> dict[str, bytes]:
        """The wide picture with its title on white paper, by ending: ``svg``, ``png`` (twice the pixels)."""
        import vl_convert

        svg = _renamed(_svg(themed(self.draw(self.wide), title=self.title, background=PAPER.light)), self.name)
        return {"svg": svg.encode(), "png": bytes(vl_convert.svg_to_png(svg, scale=PNG_SCALE))}


def need_pictures() -> None:
    """SpecError when altair or vl-convert is not installed."""
    for module in ("altair", "vl_convert"):
        if find_spec(module) is None:
            raise SpecError("report", module, "it is not installed: pip install 'twofold[pictures]'")


def themed(chart: Any, title: str = "", background: str = "transparent") -> dict[str, Any]:
    """The Vega-Lite of a chart in the look of the report; with a title it is a file of its own, with margins."""
    specification: dict[str, Any] = chart.to_dict()
    specification["config"] = specification.get("config", {}) | LOOK | {"background": background}
    if title:
        return specification | {"title": title, "padding": FILE_PX}
    return specification | {"padding": PAGE_PX}


def _renamed(svg: str, prefix: str) -> str:
    """The same picture with its identifiers numbered under ``prefix``: those of vl-convert count on from the last."""
    numbers: dict[str, int] = {}
    return IDENTIFIER.sub(lambda found: f"{found[1]}{prefix}-{numbers.setdefault(found[2], len(numbers))}", svg)


def _svg(specification: dict[str, Any]) -> str:
    import vl_convert

    return str(vl_convert.vegalite_to_svg(specification))
