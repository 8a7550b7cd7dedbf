"""What a lane can do with a part of the device: speed against share of the units, by kind of work.

Reading weights saturates early, attention over KV goes as the share, and prefill (compute) as its own curve.
``saturation`` is the multiplexing chapter's curve: all reads reach full bandwidth at a given share, prefill is linear.
The measured curves have one constant each, fitted to public solo runs on A100 and H800 (root mean square error 8 % for
weight reads, 10 % for prefill): speed(x) = x (1 + c) / (x + c).
"""

from typing import NamedTuple

import numpy as np

from twofold.cost.step import Speed
from twofold.errors import SpecError

WEIGHTS_CONSTANT = 0.145
PREFILL_CONSTANT = 0.95


class LaneSpeeds(NamedTuple):
    """Speed of both lanes of a split."""

    prefill: Speed
    decode: Speed


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
    prompts, decodes = (float(speed) for speed in cost.split_speeds[known.index([prefill, decode])])
    return LaneSpeeds(Speed(prompts, prompts, prompts), Speed(decodes, decodes, decodes))


def _speed(share: float, saturation: float | None) -> Speed:
    if share in (0.0, 1.0):
        return Speed(1.0, 1.0, 1.0)
    if saturation is not None:
        reading = min(1.0, share / saturation)
        return Speed(share, reading, reading)
    return Speed(saturating(share, PREFILL_CONSTANT), saturating(share, WEIGHTS_CONSTANT), share)
