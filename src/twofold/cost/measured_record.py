"""From tables of measurements to a COST record: as many points as it holds, and the roofline's shape beyond them."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twofold.cost.curves import never_falling
from twofold.cost.grids import Straight
from twofold.cost.measured_line import COARSE, FINE, HINTS
from twofold.cost.step import (
    BATCHES,
    BESIDE,
    CHUNKS,
    CONTEXTS,
    DENSE,
    ROWS,
    SPLITS,
    WAKES,
    Load,
    full_speed,
    stage_line,
)
from twofold.errors import SpecError

if TYPE_CHECKING:
    from twofold.cost.measured import Points, Split, Tables

Floats = NDArray[np.float64]
DOUBLINGS = 6
FAR = float(2**DOUBLINGS)
TABLES = {
    "dense": ("",),
    "row": ("",),
    "sequence": ("",),
    "chunk": ("base_", "each_"),
    "batch": ("base_", "each_"),
    "beside": ("prompt_",),
    "context": (),
}
"""Names of the tables of a record, and of what each has seconds of."""


def fill_record(record: np.recarray, tables: "Tables", layers: int) -> None:
    """Write ``tables`` into the roofline's ``record`` of the same replica; SpecError for more than it holds."""
    cost = record[0]
    stages = int(cost.stages)
    shares, rates = _shapes(record)
    cost.dense_points = _fill_points(cost, "dense", _extended(tables.dense, shares, DENSE), stages)
    cost.row_points = _fill_points(cost, "row", _extended(tables.rows, rates, ROWS), 1)
    cost.sequence_points = _fill_points(cost, "sequence", _extended(tables.sequences, rates, ROWS), 1)
    cost.chunk_points = _fill_lines(cost, "chunk", tables.prompts, CHUNKS, stages)
    cost.decode_pieces = _fill_lines(cost, "batch", tables.decodes, BATCHES, stages)
    cost.overhead_s = (tables.step_s + tables.layer_s * layers) / stages
    cost.longest_share = tables.longest_share
    if not tables.apart:
        cost.exchange_s = cost.exchange_token_s = 0.0
    if tables.beside is not None:
        _fill_beside(cost, tables, stages)
    _fill_segments(cost)
    if len(tables.wake) > WAKES:
        raise SpecError("wake", len(tables.wake), f"accepted: at most {WAKES}")
    cost.wake_points = _fill_points(cost, "wake", tables.wake, 1)
    _fill_splits(cost, tables.splits)


def _shapes(record: np.recarray) -> tuple[Callable[[float], float], Callable[[float], float]]:
    """How the roofline grows: with the tokens of the layers, and with the rows of logits."""
    roofline = record.copy()[0]
    roofline.graph_tokens = 0

    def layers(tokens: float) -> float:
        line = stage_line(roofline, Load(0, 0, round(tokens), 0, 0, 0), full_speed(), False)
        return max(line.flops, line.bytes)

    def logits(rows: float) -> float:
        return float(max(roofline.row_flops * rows / roofline.flop_rate, roofline.row_bytes / roofline.byte_rate))

    return layers, logits


def _extended(points: "Points", shape: Callable[[float], float], most: int) -> list[tuple[float, float]]:
    """Never falling, few enough, and beyond the last point in proportion to ``shape``."""
    if not points:
        return []
    kept = thinned([*zip((x for x, _ in points), never_falling(y for _, y in points), strict=True)], most - DOUBLINGS)
    last, seconds = kept[-1]
    beyond = [last * 2.0**doubling for doubling in range(1, DOUBLINGS + 1)]
    return kept + [(place, seconds * shape(place) / shape(last)) for place in beyond]


def thinned(points: Sequence[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    """At most ``most`` of the points: those go first that lie nearest to the line between their neighbours."""
    kept = list(points)
    while len(kept) > most:
        x, y = np.array(kept).T
        part = (x[1:-1] - x[:-2]) / (x[2:] - x[:-2])
        off = np.abs(y[:-2] + part * (y[2:] - y[:-2]) - y[1:-1]) / np.maximum(y[1:-1], 1e-12)
        del kept[int(off.argmin()) + 1]
    return kept


def _fill_points(cost: Any, name: str, points: Sequence[tuple[float, float]], stages: int) -> int:
    for i, (place, seconds) in enumerate(points):
        cost[f"{name}_at"][i], cost[f"{name}_s"][i] = place, seconds / stages
    return len(points)


def _fill_lines(cost: Any, name: str, lines: Sequence[Straight], most: int, stages: int) -> int:
    """The lines, and beyond both ends what is in proportion to the size, but for the base before the first."""
    if not 1 <= len(lines) <= most - 2:
        raise SpecError("cost", f"{len(lines)} sizes of {name} attention", f"accepted: 1 to {most - 2}")
    first, last = lines[0], lines[-1]
    near = [Straight(1.0, first.base_s, first.each_s / first.size)] if first.size > 1.0 else []
    far = Straight(last.size * FAR, last.base_s * FAR, last.each_s * FAR)
    written = [*near, *lines, far]
    for i, line in enumerate(written):
        cost[f"{name}_at"][i] = line.size
        cost[f"{name}_base_s"][i], cost[f"{name}_each_s"][i] = line.base_s / stages, line.each_s / stages
    return len(written)


def _fill_beside(cost: Any, tables: "Tables", stages: int) -> None:
    assert tables.beside is not None
    decodes, contexts, seconds, prompt_s = tables.beside
    if not (1 <= len(decodes) < BESIDE and 2 <= len(contexts) <= CONTEXTS):
        sizes = f"{len(decodes)} x {len(contexts)} points beside prompts"
        raise SpecError("cost", sizes, f"accepted: 1 to {BESIDE - 1} decodes, 2 to {CONTEXTS} contexts")
    n, k = seconds.shape
    cost.beside_points, cost.context_points = n + 1, k
    cost.beside_at[:n], cost.beside_at[n] = decodes, decodes[-1] * FAR
    cost.context_at[:k] = contexts
    cost.beside_prompt_s[:n], cost.beside_prompt_s[n] = prompt_s / stages, prompt_s[-1] * FAR / stages
    grid = np.vstack((seconds, seconds[-1] * FAR)) / stages
    cell = cost.beside_s[: n + 1, :k]
    cell[..., 0], cell[..., 1] = grid, _rises(cost.beside_at[: n + 1], grid.T).T
    cell[..., 2], cell[..., 3] = _rises(contexts, grid), _rises(contexts, cell[..., 1])


def _fill_segments(cost: Any) -> None:
    """What a look-up needs besides the points: how much each value rises from each of them, and where to look first."""
    starts = [*range(FINE), *(COARSE * k for k in range(HINTS - FINE))]
    for name, values in TABLES.items():
        points = int(cost["decode_pieces" if name == "batch" else f"{name}_points"])
        places = cost[f"{name}_at"][:points]
        cost[f"{name}_at"][points:] = math.inf
        found = np.searchsorted(places, starts, side="right") - 1
        cost[f"{name}_hint"] = np.clip(found, 0, max(0, points - 1))
        for value in values if points else ():
            cost[f"{name}_{value}rise"][:points] = _rises(places, cost[f"{name}_{value}s"][:points])


def _rises(places: Floats, values: Floats) -> Floats:
    """What ``values`` over ``places``, their last axis, rise by a unit beyond each; beyond the last as before it."""
    rises = np.diff(values) / np.diff(places)
    return np.concatenate((rises, rises[..., -1:]), axis=-1)


def _fill_splits(cost: Any, splits: "Sequence[Split]") -> None:
    if len(splits) > SPLITS:
        raise SpecError("splits", len(splits), f"accepted: at most {SPLITS}")
    cost.splits = len(splits)
    for i, split in enumerate(splits):
        cost.split_units[i] = split.prefill_units, split.decode_units
        cost.split_decode_speed[i] = split.decode_speed / split.contention_decode
        cost.split_sizes[i] = len(split.prompt_speed)
        for size, (tokens, speed) in enumerate(split.prompt_speed):
            cost.split_size_at[i, size], cost.split_prompt_speed[i, size] = tokens, speed / split.contention_prefill
