"""What the lanes of a multiplexed replica do on their parts of the cores: each alone, and both at once."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import NamedTuple

from twofold.engine.cores import Crew, Crews, own_cores
from twofold.engine.profile_points import Point
from twofold.engine.profile_probe import Probe
from twofold.scheduler.split import divide

FEW = 8
SAMPLES = 3
LONGEST_WAIT_S = 600.0
Told = Callable[[float], None]


class Lane(NamedTuple):
    """A probe and the step that it repeats."""

    probe: Probe
    point: Point


class SplitTimes(NamedTuple):
    """Seconds of a step of prompts and of one of decodes on (``prefill``, ``decode``) units of a machine.

    Each on all units, alone on its own, and on its own beside the other.
    """

    prefill: int
    decode: int
    whole: tuple[float, float]
    alone: tuple[float, float]
    beside: tuple[float, float]

    def entry(self) -> dict[str, float]:
        """As in a cost file: speed relative to all units, at most 1; how many times longer beside the other lane."""
        return {
            "prefill_units": self.prefill,
            "decode_units": self.decode,
            "prompt_speed": min(1.0, self.whole[0] / self.alone[0]),
            "decode_speed": min(1.0, self.whole[1] / self.alone[1]),
            "contention_prefill": max(1.0, self.beside[0] / self.alone[0]),
            "contention_decode": max(1.0, self.beside[1] / self.alone[1]),
        }


def divisible(units: int) -> bool:
    """Whether this process may pin threads to so many cores, and they are two or more."""
    return units >= 2 and hasattr(os, "sched_setaffinity") and len(os.sched_getaffinity(0)) >= units


def splits(units: int) -> list[tuple[int, int]]:
    """All divisions of a few units; of many, those that a multiplexed replica makes by itself."""
    if units <= FEW:
        return [(prefill, units - prefill) for prefill in range(units - 1, 0, -1)]
    return divide(units, "cpu", FEW - 2)


def time_splits(prompts: Lane, decodes: Lane, units: int, rounds: int, tell: Told) -> list[SplitTimes]:
    """Measure every split ``rounds`` times in turn, and take medians. SpecError where threads cannot be pinned."""
    found = splits(units)
    seen: dict[tuple[int, int], list[list[tuple[float, float]]]] = {split: [] for split in found}
    with _crews(own_cores(units)) as crews:
        for done in range(rounds * len(found)):
            split = found[done % len(found)]
            seen[split].append(_once(prompts, decodes, crews, units, split))
            tell((done + 1) / (rounds * len(found)))
    return [SplitTimes(*split, *_medians(seen[split])) for split in found]


@contextmanager
def _crews(cores: list[int]) -> Iterator[Crews]:
    crews = Crews(cores)
    try:
        yield crews
    finally:
        crews.close()


def _once(prompts: Lane, decodes: Lane, crews: Crews, units: int, split: tuple[int, int]) -> list[tuple[float, float]]:
    """(prompt, decode) seconds on the whole machine, alone, and beside each other."""
    whole, _ = crews.pair(units, 0)
    first, second = crews.pair(*split)
    return [
        (_alone(whole, prompts), _alone(whole, decodes)),
        (_alone(first, prompts), _alone(second, decodes)),
        _beside(first, prompts, second, decodes),
    ]


def _alone(crew: Crew, lane: Lane) -> float:
    def job() -> list[float]:
        lane.probe.measure(lane.point, 1)
        return lane.probe.measure(lane.point, SAMPLES)

    return median(crew.submit(job).result(LONGEST_WAIT_S))


def _beside(first: Crew, prompts: Lane, second: Crew, decodes: Lane) -> tuple[float, float]:
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


def _medians(rounds: list[list[tuple[float, float]]]) -> list[tuple[float, float]]:
    """Over the rounds, for each of the three arrangements and both lanes."""
    return [(median(each[how][0] for each in rounds), median(each[how][1] for each in rounds)) for how in range(3)]
