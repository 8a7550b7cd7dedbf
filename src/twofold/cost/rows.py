"""Lines of a CSV file of step times, with errors that name file, line and column."""

import csv
import math
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from twofold.errors import SpecError

Place = TypeVar("Place", bound=Hashable)


class Row(NamedTuple):
    """One line of a file, by column."""

    where: str
    cells: dict[str, str]

    def text(self, column: str) -> str:
        """The cell as written."""
        return (self.cells.get(column) or "").strip()

    def number(self, column: str, least: float = -math.inf) -> float:
        """A finite number that is not below ``least``; SpecError names file, line and column."""
        try:
            value = float(self.text(column))
        except ValueError:
            value = math.nan
        if not least <= value < math.inf:
            accepted = "a number" if least == -math.inf else f"a number from {least:g} on"
            raise SpecError(f"{self.where}, {column}", self.text(column), f"accepted: {accepted}")
        return value

    def count(self, column: str) -> int:
        """A whole number from 1 on."""
        value = self.number(column, 1)
        if value != int(value):
            raise SpecError(f"{self.where}, {column}", self.text(column), "accepted: a whole number")
        return int(value)


def read_rows(file: Path) -> list[Row]:
    """All lines below the header; SpecError for a file that cannot be read, or that has none."""
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            reader = csv.DictReader(lines)
            rows = [Row(f"{file.name}, line {reader.line_num}", cells) for cells in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SpecError("cost.file", str(file), f"accepted: a readable CSV file ({error})") from None
    if not rows:
        raise SpecError("cost.file", str(file), "accepted: a CSV file with at least one row below its header")
    return rows


def of_engine(rows: list[Row], engine: str | None, column: str = "engine") -> list[Row]:
    """The rows of one engine; SpecError where ``engine`` is not in the ``column``, or None chooses among several."""
    known = sorted({row.text(column) for row in rows}) if column in rows[0].cells else []
    if engine is None and len(known) <= 1:
        return rows
    if engine not in known:
        accepted = f"accepted: {', '.join(known)}" if known else f"the file has no column {column}: leave it out"
        raise SpecError("cost.engine", engine, accepted)
    return [row for row in rows if row.text(column) == engine]


def grouped(rows: Sequence[Row], key: Callable[[Row], Place]) -> dict[Place, list[Row]]:
    """Rows by their key, in the order of the file."""
    groups: dict[Place, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups
