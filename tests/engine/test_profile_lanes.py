"""Splits: each lane on its own cores, alone and beside the other."""

import os
from typing import Any

import pytest

from twofold.engine.profile_lanes import Lane, LaneTimes, SplitTimes, divisible, splits, time_splits
from twofold.engine.profile_points import Point

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
two_cores = pytest.mark.skipif(CORES < 2, reason="lanes need two cores")
PROMPT, LONGER, DECODE = Point(chunks=((64, 0),)), Point(chunks=((128, 0),)), Point(4, 64)


class Stub:
    """A probe whose steps take ``work`` over the cores of the thread that runs it."""

    def __init__(self, work: float, fails: bool = False) -> None:
        self.work, self.fails, self.cores = work, fails, set[int]()

    def measure(self, point: Point, times: int = 1) -> list[float]:
        if self.fails and times == 1 and self.cores:
            raise RuntimeError("no memory")
        mine = os.sched_getaffinity(0)
        self.cores |= mine
        return [self.work / len(mine)] * times


def lane(stub: Any, point: Point) -> Lane:
    return Lane(stub, point)


@two_cores
def test_speed_is_relative_to_all_units() -> None:
    told: list[float] = []
    prompts = [lane(Stub(2.0), PROMPT), lane(Stub(4.0), LONGER)]
    (found,) = time_splits(prompts, lane(Stub(1.0), DECODE), 2, 2, told.append)
    short, long = LaneTimes((1.0, 0.5), (2.0, 1.0), (2.0, 1.0)), LaneTimes((2.0, 0.5), (4.0, 1.0), (4.0, 1.0))
    assert found == SplitTimes(1, 1, {64: short, 128: long})
    entry = found.entry()
    assert (entry["prompt_speed"], entry["decode_speed"]) == ([[64, 0.5], [128, 0.5]], 0.5)
    assert (entry["contention_prefill"], entry["contention_decode"]) == (1.0, 1.0)
    assert told == [0.25, 0.5, 0.75, 1.0]


@two_cores
def test_a_lane_that_fails_ends_the_other() -> None:
    with pytest.raises(RuntimeError, match="no memory"):
        time_splits([lane(Stub(1.0), PROMPT)], lane(Stub(1.0, fails=True), DECODE), 2, 1, lambda share: None)


def test_an_entry_has_what_a_cost_file_takes() -> None:
    entry = SplitTimes(3, 1, {64: LaneTimes((1.0, 0.1), (1.25, 0.2), (1.5, 0.19))}).entry()
    assert entry == {
        "prefill_units": 3,
        "decode_units": 1,
        "prompt_speed": [[64, 0.8]],
        "decode_speed": 0.5,
        "contention_prefill": 1.2,
        "contention_decode": 1.0,
    }
    faster = SplitTimes(3, 1, {64: LaneTimes((1.0, 0.1), (0.9, 0.09), (1.0, 0.1))})
    assert faster.entry()["prompt_speed"] == [[64, 1.0]]


def test_few_units_are_divided_in_every_way_and_many_as_a_replica_does() -> None:
    assert splits(2) == [(1, 1)]
    assert splits(4) == [(3, 1), (2, 2), (1, 3)]
    assert len(splits(64)) == 6
    assert all(prefill + decode == 64 for prefill, decode in splits(64))


def test_one_unit_cannot_be_divided() -> None:
    assert not divisible(1)
    assert not divisible(CORES + 1)
