"""Stream groups of a multiplexed replica: how its units (SMs or cores) divide, and which group a round uses.

The rules are those of SGLang's PD multiplexing (``srt/multiplex``, version 0.5.20): group 0 gives every unit
to prefill, the last group gives every unit to decode, those between divide them, most prefill first.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twofold.compiled import compiled
from twofold.errors import SpecError

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
Division = tuple[int, int]


class Granularity(NamedTuple):
    """Smallest part, step between sizes and smallest decode part of an architecture, in units."""

    smallest: int
    step: int
    decode: int


GRANULARITY = {
    "6": Granularity(1, 1, 16),
    "7": Granularity(2, 2, 16),
    "8": Granularity(4, 2, 16),
    "9": Granularity(8, 8, 16),
    "10": Granularity(8, 8, 16),
    "12": Granularity(8, 8, 16),
    "cpu": Granularity(1, 1, 1),
}
"""By major compute capability; ``cpu`` divides cores, of which one is enough for decode."""


class StreamGroups(NamedTuple):
    """``divisions`` int64[n, 2] (prefill units, decode units) by group; ``thresholds`` int64[n], or empty.

    ``thresholds[g]`` is the decode batch from which a manual group is used; entries 0 and n - 1 are not read.
    """

    divisions: IntArray
    thresholds: IntArray


def granularity(capability: str | None) -> Granularity:
    """Granularity of a compute capability such as ``"9.0"``, or of ``"cpu"``; SpecError when unknown."""
    major = "" if capability is None else capability.partition(".")[0]
    if major not in GRANULARITY:
        accepted = f"multiplexing accepts major versions {', '.join(GRANULARITY)}"
        raise SpecError("compute_capability", capability, accepted)
    return GRANULARITY[major]


def divide(units: int, capability: str | None, count: int) -> list[Division]:
    """At most ``count`` (prefill, decode) divisions of ``units``, most prefill first.

    Prefill has at least half of the units and decode at least 16 SMs (1 core). SpecError when none fits.
    """
    grain = granularity(capability)
    sizes = range(grain.smallest, units - grain.smallest + 1, grain.step)
    prefill = [size for size in sizes if size >= units - size >= grain.decode]
    if not prefill:
        least = next(n for n in range(1, 1024) if _divisible(n, grain))
        accepted = f"multiplexing on compute capability {capability} accepts {least} units or more"
        raise SpecError("units", units, accepted)
    stride = max(1, len(prefill) // count)
    return [(size, units - size) for size in reversed(prefill[::stride][:count])]


def _divisible(units: int, grain: Granularity) -> bool:
    sizes = range(grain.smallest, units - grain.smallest + 1, grain.step)
    return any(size >= units - size >= grain.decode for size in sizes)


def stream_groups(
    units: int,
    capability: str | None,
    sm_group_num: int = 8,
    manual_divisions: tuple[tuple[int, int, int], ...] = (),
) -> StreamGroups:
    """The groups of a device; ``manual_divisions`` rows are (prefill units, decode units, decode threshold).

    SpecError: an unknown capability, too few units, fewer than 3 groups, or manual rows that do not fit.
    """
    if sm_group_num < 3:
        raise SpecError("sm_group_num", sm_group_num, "accepted: 3 or more (two groups use the whole device)")
    if not manual_divisions:
        return _with_whole_device(units, divide(units, capability, sm_group_num - 2))
    if len(manual_divisions) != sm_group_num - 2:
        accepted = f"accepted: {sm_group_num - 2} rows, sm_group_num - 2"
        raise SpecError("manual_divisions", len(manual_divisions), accepted)
    for prefill, decode, _ in manual_divisions:
        check_division("manual_divisions", units, capability, prefill, decode)
    groups = _with_whole_device(units, [(prefill, decode) for prefill, decode, _ in manual_divisions])
    thresholds = np.array([0, *(row[2] for row in manual_divisions), 0], dtype=np.int64)
    return StreamGroups(groups.divisions, thresholds)


def fixed_groups(units: int, capability: str | None, prefill: int, decode: int) -> StreamGroups:
    """Groups with one division, used whenever both phases have work; SpecError if it does not fit."""
    check_division("split", units, capability, prefill, decode)
    return _with_whole_device(units, [(prefill, decode)])


def check_division(field: str, units: int, capability: str | None, prefill: int, decode: int) -> None:
    """SpecError naming ``field`` unless the parts add up to ``units`` and the device can make them."""
    grain = granularity(capability)
    if prefill + decode != units:
        raise SpecError(field, f"{prefill}:{decode}", f"accepted: two parts that add up to {units} units")
    if min(prefill, decode) < grain.smallest or prefill % grain.step:
        accepted = f"accepted: parts of {grain.smallest} units or more, prefill a multiple of {grain.step}"
        raise SpecError(field, f"{prefill}:{decode}", accepted)


def _with_whole_device(units: int, divisions: list[Division]) -> StreamGroups:
    rows = np.array([(units, 0), *divisions, (0, units)], dtype=np.int64)
    return StreamGroups(rows, np.empty(0, dtype=np.int64))


@compiled
def choose(count: int, decodes: int, prefilling: bool, divisor: int, thresholds: IntArray) -> int:
    """Group of ``count`` for ``decodes`` running decodes, beside a prefill batch or not.

    ``thresholds`` int64[count]: the last group whose threshold is reached, else group 1. Where empty: linear
    in the decodes, the last division at ``divisor`` of them.
    """
    if decodes == 0:
        return 0
    if not prefilling:
        return count - 1
    if len(thresholds) == 0:
        return max(1, min(count - 2, decodes * (count - 2) // divisor))
    for group in range(count - 2, 0, -1):
        if decodes >= thresholds[group]:
            return group
    return 1


@compiled
def choose_for_tbt(decode_units: IntArray, decode_seconds: FloatArray, limit_s: float) -> int:
    """Division with the fewest decode units whose decode step keeps ``limit_s``, else the one with the most.

    ``decode_units`` and ``decode_seconds`` have one entry a group (the first and last are not read): the
    caller predicts the seconds of a decode step from its batch and contexts.
    """
    best, most = 0, 1
    for group in range(1, len(decode_units) - 1):
        if decode_units[group] > decode_units[most]:
            most = group
        smaller = best == 0 or decode_units[group] < decode_units[best]
        if decode_seconds[group] <= limit_s and smaller:
            best = group
    return best if best > 0 else most


@compiled
def layers_per_round(prompt_tokens: int, layers: int, token_budget: int) -> int:
    """Layers that one round runs of a prefill batch: tokens x layers keeps the budget, one layer at least."""
    if prompt_tokens == 0:
        return layers
    return min(layers, max(1, token_budget // prompt_tokens))
