"""What a lane can do with a part of the device: speed against share of the units, by kind of work.

Reading weights saturates early, attention over KV goes as the share, and prefill (compute) as its own curve.
``saturation`` is the multiplexing chapter's curve: all reads reach full bandwidth at a given share, prefill is linear.
The measured curves have one constant each, fitted to public solo runs on A100 and H800 (root mean square error 8 % for
weight reads, 10 % for prefill): speed(x) = x (1 + c) / (x + c).
"""

from typing import Any, NamedTuple

import numpy as np

from twofold.compiled import compiled
from twofold.cost.step import Speed
from twofold.errors import SpecError

WEIGHTS_CONSTANT = 0.145
PREFILL_CONSTANT = 0.95


class LaneSpeeds(NamedTuple):
    """Speed of both lanes of a split; ``by_size`` (prompt tokens, speed) where that of prompts was measured by size.

    ``prefill`` is then the highest of them.
    """

    prefill: Speed
    decode: Speed
    by_size: tuple[tuple[float, float], ...] = ()


def saturating(share: float, constant: float) -> float:
    """Speed, relative to the whole device, at ``share`` of its units: 0 at 0, 1 at 1, steep first."""
    return share * (1.0 + constant) / (share + constant)


def lane_speeds(prefill_share: float, decode_share: float, saturation: float | None) -> LaneSpeeds:
    """Speeds at these shares of the units; ``saturation`` None takes the measured curves.

    A lane without units gets speed 1: it has nothing to run.
    """
    return LaneSpeeds(_speed(prefill_share, saturation), _speed(decode_share, saturation))


def split_speeds(cost: np.record | None, prefill: int, decode: int, units: int, saturation: float | None) -> LaneSpeeds:
    """Speeds on ``prefill`` and ``decode`` of ``units``: as measured beside each other where ``cost`` has splits.

    Otherwise as :func:`lane_speeds`. Raises SpecError for a division that was not measured where others were.
    """
    if cost is None or cost.splits == 0 or 0 in (prefill, decode):
        return lane_speeds(prefill / units, decode / units, saturation)
    known = cost.split_units[: cost.splits].tolist()
    if [prefill, decode] not in known:
        measured = ", ".join(f"{first}:{second}" for first, second in known)
        raise SpecError("split", f"{prefill}:{decode}", f"accepted with these measurements: {measured}")
    i = known.index([prefill, decode])
    count, decodes = int(cost.split_sizes[i]), float(cost.split_decode_speed[i])
    sizes = zip(cost.split_size_at[i, :count].tolist(), cost.split_prompt_speed[i, :count].tolist(), strict=True)
    by_size = tuple(sizes)
    prompts = max(speed for _, speed in by_size)
    return LaneSpeeds(Speed(prompts, prompts, prompts), Speed(decodes, decodes, decodes), by_size)


@compiled
def prompt_speed(split: Any, tokens: int, speed: Speed) -> Speed:
    """Speed of a batch of so many prompt tokens: straight between the sizes of ``split``, ``speed`` if it has none."""
    if split.sizes == 0:
        return speed
    found = split.size_speed[0]
    for i in range(1, split.sizes):
        low, high = split.size_at[i - 1], split.size_at[i]
        part = min(max((tokens - low) / (high - low), 0.0), 1.0)
        found += part * (split.size_speed[i] - split.size_speed[i - 1])
    return Speed(found, found, found)


def _speed(share: float, saturation: float | None) -> Speed:
    if share in (0.0, 1.0):
        return Speed(1.0, 1.0, 1.0)
    if saturation is not None:
        reading = min(1.0, share / saturation)
        return Speed(share, reading, reading)
    return Speed(saturating(share, PREFILL_CONSTANT), saturating(share, WEIGHTS_CONSTANT), share)
