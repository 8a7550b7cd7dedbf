"""Traces of real services as workloads: Azure CSV, Mooncake JSONL, plain CSV, JSONL, Parquet, bare lengths.

Rules, the same for every format:

- rows are put in order of arrival (stable); Azure and Mooncake times count from the earliest row, plain ones
  as written;
- a row with 0 output tokens is a request whose prompt was computed and whose first token was never sent: it
  is held as 1 output token, and ``Workload.zero_outputs`` counts it; 0 prompt tokens are refused;
- columns with other names are not read;
- a bad row raises SpecError with the file, the line (from 1, header included) and the field.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from twofold.errors import SpecError
from twofold.spec.columns import (
    Table,
    read_hashes,
    read_numbers,
    read_priority,
    read_timestamps,
    read_tokens,
)
from twofold.spec.workload import Floats, Workload

ARRIVAL = ("arrival_s", "TIMESTAMP", "timestamp", "arrived_at", "arrival_timestamp")
PROMPT = ("prompt_tokens", "ContextTokens", "input_length", "num_prefill_tokens", "prompt_size")
OUTPUT = ("output_tokens", "GeneratedTokens", "output_length", "num_decode_tokens", "token_size")
FORMATS = ("auto", "azure", "mooncake", "csv", "jsonl", "parquet", "lengths")
READERS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".pq": "parquet"}
NEEDED = {
    "azure": ("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    "mooncake": ("timestamp", "input_length", "output_length"),
}
ACCEPTED = (
    "a trace has the columns arrival_s, prompt_tokens, output_tokens; or TIMESTAMP, ContextTokens, "
    "GeneratedTokens (Azure); or timestamp, input_length, output_length (Mooncake)"
)
MOONCAKE_PIECE = 512


def read_workload(
    path: str | Path,
    format: str = "auto",
    *,
    rate: float | None = None,
    seed: int = 0,
    hash_tokens: int = MOONCAKE_PIECE,
) -> Workload:
    """Read the trace at ``path``, or the shipped one for ``"sample"``, in one of :data:`FORMATS`.

    ``rate`` (requests/s) re-times the trace; bare lengths have no times and need it: they get Poisson
    arrivals drawn from ``seed``. ``hash_tokens`` is the number of tokens behind one entry of a ``hash_ids``
    column. Raises SpecError for a missing file, an unknown format and a bad row.
    """
    if str(path) == "sample":
        path = SAMPLE
    table = _read_table(Path(path), format)
    arrival, prompt, output = _columns(table, format)
    prompts = read_tokens(table, prompt, 1)
    outputs = read_tokens(table, output, 0)
    times = _arrivals(table, arrival, rate, seed)
    start, ids = read_hashes(table, prompts, hash_tokens)
    workload = Workload(
        name=table.path.stem,
        arrival_s=times,
        prompt_tokens=prompts,
        output_tokens=np.maximum(outputs, 1),
        priority=read_priority(table),
        hash_tokens=hash_tokens if len(ids) else 0,
        hash_start=start,
        hash_ids=ids,
        zero_outputs=int((outputs == 0).sum()),
    )
    workload = _in_order(workload)
    return workload.at_rate(rate) if rate is not None and arrival is not None else workload


SAMPLE = Path(__file__).parent / "data" / "sample.csv"
"""A made-up trace of a small chat service that ships with the package."""


def sample_workload() -> Workload:
    """The shipped trace, which every trace path also reads as ``"sample"``."""
    return read_workload(SAMPLE)


def _read_table(path: Path, format: str) -> Table:
    import polars as pl

    if format not in FORMATS:
        raise SpecError("format", format, f"the formats are {', '.join(FORMATS)}")
    if not path.is_file():
        raise SpecError("trace", str(path), 'no such file; give a trace file, or "sample"')
    reader = format if format in READERS.values() else READERS.get(path.suffix.lower())
    if reader is None:
        raise SpecError("trace", str(path), f"the file name ends in one of {', '.join(READERS)}")
    try:
        if reader == "csv":
            return _not_empty(Table(path, 2, pl.read_csv(path, infer_schema=False)))
        if reader == "parquet":
            return _not_empty(Table(path, 1, pl.read_parquet(path)))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise SpecError("trace", str(path), f"unreadable: {str(error).splitlines()[0]}") from None
    return _not_empty(_read_lines(path))


def _read_lines(path: Path) -> Table:
    import polars as pl

    try:
        return Table(path, 1, pl.read_ndjson(path, infer_schema_length=None))
    except pl.exceptions.PolarsError:
        return Table(path, 1, pl.DataFrame(_objects(path), infer_schema_length=None, strict=False))


def _objects(path: Path) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise SpecError(f"{path.name}, line {number}", line[:60], "one JSON object a line is needed")
        rows.append(row)
    return rows


def _not_empty(table: Table) -> Table:
    if table.frame.height == 0:
        raise SpecError("trace", str(table.path), "the file has no rows")
    return table


def _columns(table: Table, format: str) -> tuple[str | None, str, str]:
    for needed in NEEDED.get(format, ()):
        if needed not in table.frame.columns:
            raise SpecError(f"{table.path.name}, columns", table.frame.columns, f"{format} needs {needed}")
    arrival = None if format == "lengths" else table.first(ARRIVAL)
    prompt, output = table.first(PROMPT), table.first(OUTPUT)
    if prompt is None or output is None:
        raise SpecError(f"{table.path.name}, columns", table.frame.columns, ACCEPTED)
    return arrival, prompt, output


def _arrivals(table: Table, column: str | None, rate: float | None, seed: int) -> Floats:
    if column is None:
        if rate is None:
            raise SpecError("rate", None, f"{table.path.name} has no arrival times: give a rate in requests/s")
        from twofold.spec.arrivals import Arrivals

        rng = np.random.Generator(np.random.PCG64(seed))
        return Arrivals.parse("poisson").generate(rng, rate, table.frame.height)
    if column == "TIMESTAMP":
        return read_timestamps(table, column)
    times = read_numbers(table, column, "an arrival time is needed")
    if column == "timestamp":
        seconds: Floats = (times - times.min()) / 1e3
        return seconds
    if (times < 0).any():
        row = int((times < 0).argmax())
        raise SpecError(table.where(row, column), float(times[row]), "an arrival is 0 s or later")
    return times


def _in_order(workload: Workload) -> Workload:
    times = workload.arrival_s
    if (times[1:] < times[:-1]).any():
        return workload.picked(np.argsort(times, kind="stable"))
    return workload
