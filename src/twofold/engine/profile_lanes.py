"""What the lanes of a multiplexed replica do on their parts of the cores: each alone, and both at once."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from statistics import median
from typing import Any, NamedTuple

from twofold.engine.cores import Crew, Crews, own_cores
from twofold.engine.profile_points import Point
from twofold.engine.profile_probe import Probe
from twofold.scheduler.split import divide

FEW = 8
SAMPLES = 3
LONGEST_WAIT_S = 600.0
Told = Callable[[float], None]
Split = tuple[int, int]


class Lane(NamedTuple):
    """A probe and the step that it repeats."""

    probe: Probe
    point: Point


Pair = tuple[float, float]
"""Of a step of prompts, and of one of decodes."""


class LaneTimes(NamedTuple):
    """Seconds of both steps on all units of a machine, alone on their own, and on their own beside the other."""

    whole: Pair
    alone: Pair
    beside: Pair


class SplitTimes(NamedTuple):
    """What was measured on (``prefill``, ``decode``) units, for each number of prompt tokens."""

    prefill: int
    decode: int
    times: dict[int, LaneTimes]

    def entry(self) -> dict[str, Any]:
        """As in a cost file: speed relative to all units, at most 1; how many times longer beside the other lane."""
        all_, sizes = list(self.times.values()), self.times.items()
        return {
            "prefill_units": self.prefill,
            "decode_units": self.decode,
            "prompt_speed": [[size, min(1.0, each.whole[0] / each.alone[0])] for size, each in sizes],
            "decode_speed": min(1.0, median(each.whole[1] / each.alone[1] for each in all_)),
            "contention_prefill": max(1.0, median(each.beside[0] / each.alone[0] for each in all_)),
            "contention_decode": max(1.0, median(each.beside[1] / each.alone[1] for each in all_)),
        }


def divisible(units: int) -> bool:
    """Whether this process may pin threads to so many cores, and they are two or more."""
    return units >= 2 and hasattr(os, "sched_setaffinity") and len(os.sched_getaffinity(0)) >= units


def splits(units: int) -> list[Split]:
    """All divisions of a few units; of many, those that a multiplexed replica makes by itself."""
    if units <= FEW:
        return [(prefill, units - prefill) for prefill in range(units - 1, 0, -1)]
    return divide(units, "cpu", FEW - 2)


def time_splits(prompts: Sequence[Lane], decodes: Lane, units: int, rounds: int, tell: Told) -> list[SplitTimes]:
    """Measure every split ``rounds`` times in turn, with each of the prompts, and take medians.

    SpecError where threads cannot be pinned.
    """
    found = splits(units)
    cases = list(product(found, prompts))
    seen: dict[Split, dict[int, list[LaneTimes]]] = {
        split: {each.point.tokens: [] for each in prompts} for split in found
    }
    with _crews(own_cores(units)) as crews:
        for done, (split, each) in enumerate(cases * rounds, 1):
            seen[split][each.point.tokens].append(_once(each, decodes, crews, units, split))
            tell(done / (rounds * len(cases)))
    return [SplitTimes(*split, {size: _medians(times) for size, times in seen[split].items()}) for split in found]


@contextmanager
def _crews(cores: list[int]) -> Iterator[Crews]:
    crews = Crews(cores)
    try:
        yield crews
    finally:
        crews.close()


def _once(prompts: Lane, decodes: Lane, crews: Crews, units: int, split: Split) -> LaneTimes:
    whole, _ = crews.pair(units, 0)
    first, second = crews.pair(*split)
    return LaneTimes(
        (_alone(whole, prompts), _alone(whole, decodes)),
        (_alone(first, prompts), _alone(second, decodes)),
        _beside(first, prompts, second, decodes),
    )


def _alone(crew: Crew, lane: Lane) -> float:
    def job() -> list[float]:
        lane.probe.measure(lane.point, 1)
        return lane.probe.measure(lane.point, SAMPLES)

    return median(crew.submit(job).result(LONGEST_WAIT_S))


def _beside(first: Crew, prompts: Lane, second: Crew, decodes: Lane) -> Pair:
    """Both repeat their steps until each has enough of them, the first of each left out as the other may start late."""
    stop, counts = threading.Event(), [0, 0]

    def repeat(lane: Lane, which: int) -> list[float]:
        seconds: list[float] = []
        until = time.monotonic() + LONGEST_WAIT_S
        try:
            while min(counts) <= SAMPLES and not stop.is_set() and time.monotonic() < until:
                seconds += lane.probe.measure(lane.point)
                counts[which] = len(seconds)
        finally:
            stop.set()
        return seconds

    runs = [first.submit(repeat, prompts, 0), second.submit(repeat, decodes, 1)]
    try:
        seconds = [run.result(LONGEST_WAIT_S) for run in runs]
    finally:
        stop.set()
    return median(seconds[0][1:]), median(seconds[1][1:])


def _medians(rounds: list[LaneTimes]) -> LaneTimes:
    """Over the rounds, for each of the three arrangements and both lanes."""

    def both(pairs: list[Pair]) -> Pair:
        return median(first for first, _ in pairs), median(second for _, second in pairs)

    return LaneTimes(*(both(list(pairs)) for pairs in zip(*rounds, strict=True)))
