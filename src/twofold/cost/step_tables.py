"""Tables of whole steps as a cost model: a folder with steps_prefill.csv and steps_decode.csv.

Columns: system, model, tp, dtype, batch, isl_or_ctx, latency_ms, and backend where there are several. A prefill row is
``batch`` prompts of ``isl_or_ctx`` tokens in one step, a decode row ``batch`` decodes of so much context.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from twofold.cost.contract import Reach
from twofold.cost.grids import Sample, Straight, spread, straight
from twofold.cost.measured import Key, Measured, Tables, known_device, known_model
from twofold.cost.roofline import Roofline
from twofold.cost.rows import Row, grouped, of_engine, read_rows
from twofold.errors import SpecError

PREFILL, DECODE = "steps_prefill.csv", "steps_decode.csv"
MILLI = 1e-3


def is_step_folder(path: Path) -> bool:
    """Whether ``path`` is a folder of this form."""
    return (path / PREFILL).is_file() and (path / DECODE).is_file()


def read_steps(path: Path, engine: str | None, roofline: Roofline) -> Measured:
    """The cost model of a folder of this form; ``engine`` chooses a ``backend``. Raises SpecError."""
    prompts, decodes = (
        grouped(of_engine(_timed(read_rows(path / name)), engine, "backend"), _key) for name in (PREFILL, DECODE)
    )
    rows = {key: _tables(prompts[key], decodes[key]) for key in prompts if key in decodes}
    if not rows:
        raise SpecError("cost.file", str(path), "accepted: prefill and decode rows of the same replica")
    return Measured(path.name, rows, roofline, "whole steps" + (f" of {engine}" if engine else ""))


def _timed(rows: Sequence[Row]) -> list[Row]:
    """Rows with a time: there is none of what does not fit the memory."""
    return [row for row in rows if row.text("latency_ms")]


def _key(row: Row) -> Key:
    dtype = row.text("dtype").partition("(")[0]
    return Key(known_model(row.text("model")), known_device(row.text("system")), row.count("tp"), dtype)


def _samples(rows: Sequence[Row]) -> list[Sample]:
    return [
        Sample(row.count("batch"), row.number("isl_or_ctx", 1.0), MILLI * row.number("latency_ms", 0.0)) for row in rows
    ]


def _nothing(size: float) -> float:
    return 0.0


def _tables(prefill: Sequence[Row], decode: Sequence[Row]) -> Tables:
    """Attention is what grows with the context at the same tokens; all else is dense, of prompts and decodes alike."""
    prompts, decodes = _samples(prefill), _samples(decode)
    batches = straight(decodes, _nothing)
    chunks = straight([Sample(n * keys, keys / 2.0, s) for n, keys, s in prompts], _nothing)
    chunks = _with_lengths(chunks, prompts)
    longest = batches[-1].size
    dense = {line.size: line.base_s for line in batches}
    dense |= {line.size: line.base_s for line in chunks if line.size > longest}
    return Tables(
        dense=tuple(sorted(dense.items())),
        prompts=tuple(Straight(line.size, 0.0, line.each_s) for line in chunks),
        decodes=tuple(Straight(line.size, 0.0, line.each_s) for line in batches),
        residuals={"decode": spread(batches, decodes, _nothing)},
        reach=Reach(chunks[-1].size, longest, max(sample.keys for sample in decodes)),
    )


def _with_lengths(chunks: Sequence[Straight], prompts: Sequence[Sample]) -> tuple[Straight, ...]:
    """The same where tokens were measured in one shape only: seconds a pair are those of the sizes with several."""
    shapes: dict[float, set[float]] = {}
    for count, keys, _ in prompts:
        shapes.setdefault(count * keys, set()).add(keys)
    several = [line for line in chunks if len(shapes[line.size]) > 1]
    if not several:
        raise SpecError(PREFILL, len(chunks), "accepted: prompts of two lengths that make the same tokens in all")
    sizes, pair_s = np.array([line.size for line in several]), np.array([line.each_s / line.size for line in several])
    found = []
    for line in chunks:
        if len(shapes[line.size]) > 1:
            found.append(line)
            continue
        each = float(np.interp(line.size, sizes, pair_s)) * line.size
        mean = min(shapes[line.size]) / 2.0
        found.append(Straight(line.size, max(0.0, line.base_s + (line.each_s - each) * mean), each))
    return tuple(found)
