"""What a lane can do with a part of the device: speed against share of the units, by kind of work.

Reading weights saturates early, attention over KV goes as the share, and prefill (compute) as its own curve.
``saturation`` is the multiplexing chapter's curve: all reads reach full bandwidth at a given share, prefill is linear.
``measured`` has one constant a curve, fitted to public solo runs on A100 and H800 (root mean square error 8 % for
weight reads, 10 % for prefill): speed(x) = x (1 + c) / (x + c).
"""

from typing import NamedTuple

from twofold.cost.step import Speed

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


def _speed(share: float, saturation: float | None) -> Speed:
    if share in (0.0, 1.0):
        return Speed(1.0, 1.0, 1.0)
    if saturation is not None:
        reading = min(1.0, share / saturation)
        return Speed(share, reading, reading)
    return Speed(saturating(share, PREFILL_CONSTANT), saturating(share, WEIGHTS_CONSTANT), share)
