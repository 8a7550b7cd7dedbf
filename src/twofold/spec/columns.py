"""Columns of a trace file as arrays; a bad cell raises SpecError with the file, the line and the column."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from twofold.errors import SpecError
from twofold.spec.workload import Floats, Ints, Longs
from twofold.spec.workload_checks import LARGEST

if TYPE_CHECKING:
    import polars as pl


class Table(NamedTuple):
    """A file in columns: where it came from, the line of its first row, and its frame."""

    path: Path
    first_line: int
    frame: pl.DataFrame

    def where(self, row: int, column: str) -> str:
        """Name a cell for an error message."""
        return f"{self.path.name}, line {row + self.first_line}, {column}"

    def first(self, names: tuple[str, ...]) -> str | None:
        """The first of ``names`` that is a column."""
        return next((name for name in names if name in self.frame.columns), None)


def read_numbers(table: Table, column: str, accepted: str) -> Floats:
    """Finite numbers, float64, one a row; ``accepted`` is what the error says of another value."""
    import polars as pl

    written = table.frame[column]
    if not (written.dtype.is_numeric() or written.dtype == pl.String):
        raise SpecError(table.where(0, column), written[0], accepted)
    values = written.cast(pl.Float64, strict=False)
    bad = (values.is_null() | ~values.is_finite()).fill_null(True)
    if bad.any():
        row = int(bad.arg_max() or 0)
        raise SpecError(table.where(row, column), written[row], accepted)
    return values.to_numpy()


def read_tokens(table: Table, column: str, least: int) -> Ints:
    """Whole token counts from ``least`` on, int32, one a row."""
    accepted = f"a whole number of tokens from {least} on is needed"
    values = read_numbers(table, column, accepted)
    bad = (values < least) | (values > LARGEST) | (values != np.floor(values))
    if bad.any():
        row = int(bad.argmax())
        raise SpecError(table.where(row, column), table.frame[column][row], accepted)
    return values.astype(np.int32)


def read_timestamps(table: Table, column: str) -> Floats:
    """Dates with times as seconds after the earliest of them, float64, one a row."""
    import polars as pl

    written = table.frame[column]
    if written.dtype == pl.String:
        stamps = written.str.strip_suffix("+00:00").str.to_datetime(
            "%Y-%m-%d %H:%M:%S%.f", time_unit="ns", strict=False
        )
    else:
        stamps = written.cast(pl.Datetime("ns"), strict=False)
    bad = stamps.is_null()
    if bad.any():
        row = int(bad.arg_max() or 0)
        raise SpecError(table.where(row, column), written[row], "a time such as 2023-11-16 18:15:46.6805900 is needed")
    nanoseconds = stamps.to_physical().to_numpy()
    seconds: Floats = (nanoseconds - nanoseconds.min()) / 1e9
    return seconds


def read_priority(table: Table) -> Ints:
    """The column ``priority``, int32, one a row; 0 for all without it."""
    if "priority" not in table.frame.columns:
        return np.zeros(table.frame.height, np.int32)
    accepted = "a whole number is needed; smaller is more urgent"
    values = read_numbers(table, "priority", accepted)
    bad = (values != np.floor(values)) | (np.abs(values) > LARGEST)
    if bad.any():
        row = int(bad.argmax())
        raise SpecError(table.where(row, "priority"), table.frame["priority"][row], accepted)
    return values.astype(np.int32)


def read_hashes(table: Table, prompt: Ints, piece: int) -> tuple[Longs, Longs]:
    """Ids of the full pieces only: the last id of a Mooncake row may stand for a part of a piece."""
    import polars as pl

    n = table.frame.height
    if "hash_ids" not in table.frame.columns:
        return np.zeros(n + 1, np.int64), np.zeros(0, np.int64)
    if piece < 1:
        raise SpecError("hash_tokens", piece, "a hash id covers at least 1 token")
    lists = table.frame["hash_ids"]
    if lists.dtype != pl.List(pl.Int64):
        raise SpecError(table.where(0, "hash_ids"), lists[0], "a list of whole numbers is needed")
    count = lists.list.len().fill_null(0).to_numpy().astype(np.int64)
    ids = lists.filter(lists.list.len() > 0).explode().to_numpy()
    owner = np.repeat(np.arange(n), count)
    place = np.arange(len(ids)) - np.repeat(np.cumsum(count) - count, count)
    bad = (place >= -(-prompt[owner] // piece)) | ~(ids >= 0)
    if bad.any():
        row = int(owner[bad.argmax()])
        raise SpecError(
            table.where(row, "hash_ids"), ids[bad.argmax()].item(), f"ids from 0 on, one each {piece} tokens"
        )
    full = place < prompt[owner] // piece
    kept = np.bincount(owner[full], minlength=n)
    # The scheduler reads 0 as "content unknown".
    return np.concatenate([[0], np.cumsum(kept)]), ids[full].astype(np.int64) + 1
