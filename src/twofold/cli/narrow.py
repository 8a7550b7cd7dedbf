"""How a table is made as narrow as a terminal: heads and cells are folded, and columns left out."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import zip_longest
from textwrap import wrap
from typing import NamedTuple

BLOCKS = " ▏▎▍▌▋▊▉█"
GAP = 2
READABLE, LEAST = 24, 12
"""Characters down to which cells are folded before columns are left out, and after."""
HARD_SPACE = "\N{NO-BREAK SPACE}"
Lines = list[tuple[str, ...]]


class Columns(NamedTuple):
    """Which columns are shown, and the most characters of a line of their heads and of their cells."""

    places: list[int]
    heads: list[int]
    cells: list[int]

    def width(self, place: int) -> int:
        """Characters of a column."""
        return max(self.heads[place], self.cells[place])

    def total(self) -> int:
        """Characters of a line of the table."""
        return sum(map(self.width, self.places)) + GAP * (len(self.places) - 1)

    def head(self, texts: Sequence[str]) -> Lines:
        """The lines of the heads; those of fewer lines stand at the bottom."""
        lines = [_folded(texts[place], self.heads[place]) for place in self.places]
        most = max(map(len, lines))
        return list(zip(*([""] * (most - len(each)) + each for each in lines), strict=True))

    def row(self, texts: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """The lines of a row."""
        return zip_longest(*(_folded(texts[place], self.cells[place]) for place in self.places), fillvalue="")


def fitted(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: Collection[int],
    widest: int,
    spare: Iterable[int],
    room: int,
) -> Columns:
    """The columns of a table that has ``room`` characters, as far as they can be narrowed.

    Cells have at most ``widest`` characters in a line; those in ``left`` and those too wide for numbers may be
    folded. Columns of bars are left out first, then those of ``spare``, in this order.
    """
    longest = [max((len(row[place]) for row in rows), default=0) for place in range(len(head))]
    found = Columns(list(range(len(head))), [len(text) for text in head], [min(widest, each) for each in longest])
    if found.total() > room:
        found.heads[:] = [
            min(len(text), max(_longest_word(text), found.cells[place])) for place, text in enumerate(head)
        ]
    _leave_out(found, [place for place in range(len(head)) if _is_bar([row[place] for row in rows])], room)
    foldable = [place for place in found.places if place in left or found.cells[place] > READABLE]
    _fold(found, foldable, room, READABLE)
    _leave_out(found, spare, room)
    _fold(found, foldable, room, LEAST)
    return found


def _is_bar(cells: Sequence[str]) -> bool:
    return any(cells) and set().union(*cells) <= set(BLOCKS)


def _leave_out(found: Columns, places: Iterable[int], room: int) -> None:
    for place in places:
        if found.total() > room:
            found.places.remove(place)


def _fold(found: Columns, places: Iterable[int], room: int, least: int) -> None:
    """Take from the widest of the columns in ``places``, a character at a time."""
    foldable = [place for place in places if place in found.places]
    while foldable and found.total() > room:
        place = max(foldable, key=found.width)
        narrower = found.width(place) - 1
        if narrower < least:
            return
        found.heads[place] = min(found.heads[place], narrower)
        found.cells[place] = min(found.cells[place], narrower)


def _longest_word(text: str) -> int:
    return max(map(len, text.split()), default=0) + _tail(text)


def _tail(text: str) -> int:
    return len(text) - len(text.rstrip())


def _folded(text: str, width: int) -> list[str]:
    """Lines of at most ``width`` characters, each with the spaces that ``text`` ends in."""
    if len(text) <= width:
        return [text]
    room, tail = width - _tail(text), " " * _tail(text)
    lines = wrap(text.replace(", ", f",{HARD_SPACE}"), room, break_long_words=False, break_on_hyphens=False)
    return [part.replace(HARD_SPACE, " ") + tail for line in lines for part in _cut(line, room)]


def _cut(line: str, room: int) -> Iterator[str]:
    """A line without spaces where it may be folded is cut after a comma, or else anywhere."""
    while len(line) > room:
        end = line.rfind(",", 0, room) + 1 or room
        yield line[:end]
        line = line[end:].lstrip(HARD_SPACE)
    yield line
