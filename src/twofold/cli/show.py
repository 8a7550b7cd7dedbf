"""How results look on a screen: aligned text tables, milliseconds, bars, and JSON."""

import json
import math
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any

from twofold.cli.narrow import BLOCKS, fitted

ABSENT = "–"
UNBOUNDED = 10_000
PIPED = 200
"""Columns of a table that goes into a file or a pipe, or to a terminal that does not say how wide it is."""


def milliseconds(seconds: float | None) -> str:
    """Seconds as milliseconds with about three significant digits, without the unit."""
    if seconds is None or math.isnan(seconds):
        return ABSENT
    value = seconds * 1e3
    return f"{value:,.{2 if value < 10 else 1 if value < 1000 else 0}f}"


def number(value: float | None, digits: int = 3) -> str:
    """A number with thousands separators and at least ``digits`` significant digits."""
    if value is None or math.isnan(value):
        return ABSENT
    if value == 0 or math.isinf(value):
        return f"{value:.0f}"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}"


def percent(share: float | None) -> str:
    """A share of one as a percentage with one decimal."""
    return ABSENT if share is None or math.isnan(share) else f"{share:.1%}".replace("%", " %")


def bar(share: float, width: int = 30) -> str:
    """A horizontal bar that fills ``share`` (0 to 1) of ``width`` characters, to an eighth of one."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    return (BLOCKS[8] * full + BLOCKS[rest]).rstrip().ljust(width)


def bold(text: str) -> str:
    """``text`` set in bold where standard output is a terminal that may be coloured."""
    if sys.stdout is None or not sys.stdout.isatty() or "NO_COLOR" in os.environ:
        return text
    return f"\033[1m{text}\033[0m"


def room() -> int:
    """Columns of the terminal that standard output is; ``PIPED`` where it is none, or does not say."""
    if sys.stdout is None or not sys.stdout.isatty():
        return PIPED
    return get_terminal_size((PIPED, 0)).columns


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: Collection[int] = (0,),
    widest: int = UNBOUNDED,
    spare: Sequence[int] = (),
) -> str:
    """Columns two spaces apart, those whose places are in ``left`` flush left and the others flush right.

    A cell of more than ``widest`` characters goes on in further lines. A table that is wider than the terminal leaves
    out what it has to of ``spare``, in this order, and names it; see :func:`twofold.cli.narrow.fitted`.
    """
    columns = fitted(head, rows, left, widest, spare, room())
    heads, lines = columns.head(head), [line for row in rows for line in columns.row(row)]
    widths = [max(len(line[column]) for line in (*heads, *lines)) for column in range(len(columns.places))]

    def aligned(line: Sequence[str]) -> str:
        cells = (
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, cell, width in zip(columns.places, line, widths, strict=True)
        )
        return "  ".join(cells).rstrip()

    out = ", ".join(head[place].strip() for place in spare if place not in columns.places)
    note = wrap(f"not shown for want of room, but by --json: {out}", room()) if out else []
    return "\n".join([*(bold(aligned(line)) for line in heads), *map(aligned, lines), *note])


def spared(head: Sequence[str], names: Iterable[str]) -> list[int]:
    """The places of the columns of these names, in the order of the names."""
    heads = [text.strip() for text in head]
    return [heads.index(name) for name in names if name in heads]


def facts(pairs: Mapping[str, str]) -> str:
    """Lines of a name and what is said about it, aligned."""
    width = max(map(len, pairs))
    return "\n".join(f"{name.ljust(width)}  {text}".rstrip() for name, text in pairs.items())


def print_json(value: object) -> None:
    """Print one JSON object; numbers that JSON lacks (NaN, infinity) become null."""
    print(json.dumps(to_plain(value), indent=2, ensure_ascii=False, allow_nan=False))


def to_plain(value: Any) -> Any:
    """``value`` as JSON can have it: numbers that it lacks become null."""
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return to_plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
