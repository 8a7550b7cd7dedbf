"""What no step undercuts where times come from a fit or from measurements: linear, so that requests can share it."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Floors(NamedTuple):
    """What no step undercuts, in seconds: for tokens n with their pairs, decodes b and their KV tokens c.

    A step takes at least ``fixed_s + prompt_token_s n + pair_s pairs + request_s b + context_s c`` and at least
    ``bare_s + request_s b + context_s c``; one with decodes at least ``decode_s + request_s b + context_s c``.
    """

    fixed_s: float
    decode_s: float
    prompt_token_s: float
    pair_s: float
    request_s: float
    context_s: float
    bare_s: float


def floors(cost: np.record) -> Floors:
    """The floors of one stage of a COST record that is fitted or measured."""
    return _of_tables(cost) if cost.dense_points > 0 else _of_pieces(cost)


def _of_pieces(cost: np.record) -> Floors:
    prompt = list(
        zip(*(cost[f"prompt_{name}"][: cost.prompt_pieces] for name in ("from", "base_s", "token_s")), strict=True)
    )
    decode = list(
        zip(*(cost[f"decode_{name}"][: cost.decode_pieces] for name in ("from", "base_s", "request_s")), strict=True)
    )
    fixed, decode_s = float(cost.shared_s), float(min(base + slope * start for start, base, slope in decode))
    context = float(cost.decode_context_s[: cost.decode_pieces].min())
    token, request = _least_slope(prompt, fixed), _least_slope(decode, decode_s)
    return Floors(fixed, decode_s, token, float(cost.pair_s), request, context, fixed)


def _least_slope(pieces: Sequence[tuple[float, float, float]], height: float) -> float:
    """The steepest line from ``height`` at 0 that stays below all pieces: it touches one at an end, or far out."""
    least = pieces[-1][2]
    ends = [start for start, _, _ in pieces[1:]]
    for (start, base, slope), end in zip(pieces, [*ends, math.inf], strict=True):
        least = min([least, *((base + slope * x - height) / x for x in (start, end) if 0.0 < x < math.inf)])
    return max(0.0, float(least))


def _of_tables(cost: np.record) -> Floors:
    """Parts are bounded one by one; logits only where one stage has them too."""
    every = float(cost.overhead_s + cost.exchange_s)
    height, dense = _tangent(*_table(cost, "dense", cost.dense_points))
    token = _ray(*_table(cost, "dense", cost.dense_points))
    rows = sequences = (0.0, 0.0)
    if cost.stages == 1:
        rows = _tangent(*_table(cost, "row", cost.row_points))
        sequences = _tangent(*_table(cost, "sequence", cost.sequence_points))
    chunk_base, pair = _per_size(cost, "chunk", cost.chunk_points)
    base, context = _per_size(cost, "batch", cost.decode_pieces)
    if cost.beside_points > 0:
        base, context = 0.0, min(context, _beside(cost))
    exchange = float(cost.exchange_token_s)
    bare = every + height + sequences[0]
    return Floors(
        fixed_s=every + sequences[0],
        decode_s=bare + rows[0],
        prompt_token_s=token + chunk_base + exchange,
        pair_s=pair,
        request_s=dense + base + rows[1] + sequences[1] + exchange,
        context_s=context,
        bare_s=bare,
    )


def _table(cost: np.record, name: str, points: int) -> tuple[Floats, Floats]:
    return cost[f"{name}_at"][:points], cost[f"{name}_s"][:points]


def _tangent(places: Floats, seconds: Floats) -> tuple[float, float]:
    """(height at 0, slope) of the steepest line that touches the first point and stays below the table; 0 without one.

    Before its first point a table is level, beyond its last it goes on as between the last two.
    """
    if len(places) == 0:
        return 0.0, 0.0
    first, least = float(places[0]), float(seconds[0])
    chords = (seconds[1:] - least) / (places[1:] - first)
    steepest = least / first if first > 0.0 else np.inf
    slope = max(0.0, min(float(chords.min()), _last_slope(places, seconds), steepest))
    return least - slope * first, slope


def _ray(places: Floats, seconds: Floats) -> float:
    """Slope of the steepest line from 0 that stays below the table."""
    return max(0.0, min(float((seconds / places).min()), _last_slope(places, seconds)))


def _last_slope(places: Floats, seconds: Floats) -> float:
    return float((seconds[-1] - seconds[-2]) / (places[-1] - places[-2]))


def _per_size(cost: np.record, name: str, points: int) -> tuple[float, float]:
    """Least base, and least slope in the mean keys, for each prompt token or decode."""
    places = cost[f"{name}_at"][:points]
    return _ray(places, cost[f"{name}_base_s"][:points]), _ray(places, cost[f"{name}_each_s"][:points])


def _beside(cost: np.record) -> float:
    """Least seconds a KV token: in proportion to both, decodes and context, below each corner of the grid."""
    n, k = cost.beside_points, cost.context_points
    decodes, contexts, seconds = cost.beside_at[:n, None], cost.context_at[:k], cost.beside_s[:n, :k, 0]
    beyond = (seconds[:, -1] - seconds[:, -2]) / (contexts[-1] - contexts[-2]) / decodes[:, 0]
    some = contexts > 0.0
    return max(0.0, min(float((seconds[:, some] / (decodes * contexts[some])).min()), float(beyond.min())))
