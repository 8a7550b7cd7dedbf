"""Where ticks and labels go, so that a picture needs no luck."""

import math
from collections.abc import Sequence
from itertools import pairwise


def apart(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places near those ``wanted``, at least ``gap`` from each other and, when they fit, within [low, high]."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    places = [min(max(place, low), high) for place in wanted]
    for before, after in pairwise(order):
        places[after] = max(places[after], places[before] + gap)
    ceiling = high
    for index in reversed(order):
        places[index] = min(places[index], ceiling)
        ceiling = places[index] - gap
    return places


def even_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """At most ``most`` round numbers, equally far apart, within [low, high]."""
    raw = (high - low) / max(most - 1, 1)
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * magnitude for factor in (1, 2, 2.5, 5, 10, 20) if factor * magnitude >= raw * (1 - 1e-9))
    return [round(step * k, 12) for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float, most: int = 7) -> list[float]:
    """Round numbers within [low, high] for a logarithmic axis: the finest of three series with at most ``most``."""
    found: list[float] = []
    for factors in ((1, 1.5, 2, 3, 4, 5, 6, 8), (1, 2, 5), (1, 3), (1,)):
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        found = [
            factor * 10.0**decade for decade in decades for factor in factors if low <= factor * 10.0**decade <= high
        ]
        if len(found) <= most:
            break
    return found
