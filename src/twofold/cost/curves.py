"""From repeated measurements to pieces of lines: medians, never falling, straight between them."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import median

from twofold.cost.fitted import DecodePiece, PromptPiece
from twofold.errors import SpecError


def slope_of(points: Sequence[tuple[float, float]]) -> float:
    """Least-squares slope of y over x, at least 0; 0 where all x are the same."""
    if not points:
        return 0.0
    x_mean = sum(x for x, _ in points) / len(points)
    y_mean = sum(y for _, y in points) / len(points)
    square = sum((x - x_mean) ** 2 for x, _ in points)
    return max(0.0, sum((x - x_mean) * (y - y_mean) for x, y in points) / square) if square else 0.0


def never_falling(values: Iterable[float]) -> list[float]:
    """The nearest sequence, by least squares, that never falls: neighbours that do are pooled (isotonic regression)."""
    pools: list[tuple[float, int]] = []
    for value in values:
        mean, count = value, 1
        while pools and pools[-1][0] > mean:
            before, size = pools.pop()
            mean, count = (before * size + mean * count) / (size + count), size + count
        pools.append((mean, count))
    return [mean for mean, count in pools for _ in range(count)]


def prompt_pieces(samples: Mapping[float, Sequence[float]]) -> list[PromptPiece]:
    """Seconds by prompt tokens: level below the first point, and beyond the last on as between the last two."""
    return [PromptPiece(*line) for line in _lines(samples)]


def decode_pieces(samples: Mapping[float, Sequence[float]], context_s: float) -> list[DecodePiece]:
    """Seconds by decodes, the share of the context (``context_s`` a KV token) taken off; as prompts otherwise."""
    return [DecodePiece(*line, context_s) for line in _lines(samples)]


def _lines(samples: Mapping[float, Sequence[float]]) -> list[tuple[float, float, float]]:
    """(start, intercept, slope) of each piece."""
    places = sorted(samples)
    if len(places) < 2:
        raise SpecError("cost", places, "accepted: times at two sizes or more of each replica")
    values = never_falling(median(samples[place]) for place in places)
    pieces = [(0.0, values[0], 0.0)]
    for (x, y), (next_x, next_y) in pairwise(zip(places, values, strict=True)):
        slope = (next_y - y) / (next_x - x)
        pieces.append((x, y - slope * x, slope))
    return pieces
