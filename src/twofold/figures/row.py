"""A row of the figures: the chapter's value, ours and the difference."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Literal

Kind = Literal["exact", "model"]
MODEL_TOLERANCE = 0.03


@dataclass(frozen=True)
class Comparison:
    """One value of a chapter beside ours.

    ``part`` completes the figure's id; ``chapter_value`` is as printed there; ``difference`` is
    ours / chapter - 1, or None where the two are not numbers; ``ok`` says that ours is what the chapter
    prints, or near enough for a model row; ``inputs`` names every input that the chapter leaves open.
    """

    part: str
    what: str
    chapter_value: str
    ours: str
    difference: float | None
    ok: bool
    inputs: str = ""


@dataclass(frozen=True)
class Row:
    """One row of ``twofold figures``; see :class:`Comparison` for the fields that the two share."""

    id: str
    chapter: str
    kind: Kind
    what: str
    chapter_value: str
    ours: str
    difference: float | None
    ok: bool
    inputs: str

    def to_dict(self) -> dict[str, object]:
        """The row as JSON-ready values."""
        return asdict(self)


def text(part: str, what: str, chapter: object, ours: object, inputs: str = "") -> Comparison:
    """Two values that must read the same."""
    same = str(chapter) == str(ours)
    return Comparison(part, what, str(chapter), str(ours), 0.0 if same else None, same, inputs)


def number(
    part: str, what: str, chapter: float, ours: float, unit: str, digits: int = 2, inputs: str = ""
) -> Comparison:
    """An exact row: ours must print like the chapter's value at its ``digits`` decimals."""
    printed, mine = f"{chapter:.{digits}f}", f"{ours:.{digits}f}"
    return Comparison(part, what, f"{printed} {unit}", f"{mine} {unit}", ours / chapter - 1, printed == mine, inputs)


def near(
    part: str,
    what: str,
    chapter: float,
    ours: float,
    unit: str,
    digits: int = 2,
    inputs: str = "",
    tolerance: float = MODEL_TOLERANCE,
) -> Comparison:
    """A model row, or a sampled one: ours must lie within ``tolerance`` of the chapter's, as a fraction."""
    difference = ours / chapter - 1
    printed, mine = f"{chapter:.{digits}f} {unit}", f"{ours:.{digits}f} {unit}"
    return Comparison(part, what, printed, mine, difference, abs(difference) <= tolerance, inputs)


def sampled(
    part: str, what: str, chapter: float, draws: Sequence[float], unit: str, digits: int, inputs: str
) -> Comparison:
    """A model row of one random run: ours is the mean of several, the chapter's lies in their range."""
    row = near(part, what, chapter, fmean(draws), unit, digits, inputs)
    least, most = f"{min(draws):.{digits}f}", f"{max(draws):.{digits}f}"
    inside = float(least) <= chapter <= float(most)
    return replace(row, ok=row.ok or inside, inputs=f"{inputs}, from {least} to {most} {unit}")


def within(
    part: str,
    what: str,
    chapter: tuple[float, float],
    ours: tuple[float, float],
    unit: str,
    digits: int = 1,
    inputs: str = "",
) -> Comparison:
    """A model row that is a range: both ends of ours must lie near or between the chapter's ends.

    The difference is the larger distance by which ours leaves the chapter's range.
    """
    (low, high), (least, most) = chapter, ours
    under, over = min(0.0, least / low - 1), max(0.0, most / high - 1)
    difference = over if over > -under else under
    mine = f"{least:.{digits}f}-{most:.{digits}f}{unit}"
    ok = abs(difference) <= MODEL_TOLERANCE
    return Comparison(part, what, f"{low:g}-{high:g}{unit}", mine, difference, ok, inputs)
