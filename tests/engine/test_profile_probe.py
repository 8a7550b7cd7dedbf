"""The step that is timed is the engine's own, and what leads to it is not computed."""

import pytest
import torch
from fakes import MODEL, device, group
from timed import Timed, expected, loaded

from twofold.engine.pool import Pool
from twofold.engine.profile_points import Point
from twofold.engine.profile_probe import Probe

POINTS = [
    Point(1, 40),
    Point(5, 300),
    Point(chunks=((100, 0),)),
    Point(chunks=((100, 0),), ends=False),
    Point(chunks=((70, 500),), ends=False),
    Point(chunks=((70, 500),)),
    Point(chunks=((30, 0),) * 4),
    Point(3, 200, ((90, 0),)),
    Point(3, 200, ((90, 333),), False),
    Point(2, 64, ((20, 0), (20, 0))),
]


@pytest.fixture
def timed() -> Timed:
    return Timed()


@pytest.fixture
def probe(timed: Timed) -> Probe:
    pool = Pool.sized(MODEL, "bf16", blocks=800, block_tokens=4)
    return Probe(loaded(timed), pool, group("1B,mixed"), device(1), 1024, 16, timed.clock)


def assert_empty(probe: Probe) -> None:
    replica = probe._s.replicas[0]
    assert not probe.has_work
    assert replica.free_blocks == replica.total_blocks


@pytest.mark.parametrize("point", POINTS)
def test_a_step_is_timed_from_plan_to_commit(probe: Probe, point: Point) -> None:
    assert probe.measure(point) == [pytest.approx(expected(point))]
    assert_empty(probe)


def test_what_leads_to_a_step_is_not_computed(probe: Probe, timed: Timed) -> None:
    probe.measure(Point(chunks=((100, 900),), ends=False))
    assert timed.steps == 1
    probe.measure(Point(4, 200), 3)
    assert timed.steps == 1 + 1 + 3
    probe.measure(Point(chunks=((8, 0),)), 3)
    assert timed.steps == 5 + 1 + 3


def test_decodes_are_timed_one_after_the_other(probe: Probe) -> None:
    first, second, third = probe.measure(Point(2, 100), 3)
    assert second - first == pytest.approx(2 * 2e-6)
    assert third - second == pytest.approx(2 * 2e-6)


def test_the_host_alone(probe: Probe, timed: Timed) -> None:
    assert probe.host_seconds(3) == [0.0, 0.0, 0.0]
    assert_empty(probe)
    assert timed.steps == 1


def test_kv_that_nobody_wrote_is_noise(timed: Timed) -> None:
    pool = Pool.sized(MODEL, "fp32", blocks=20, block_tokens=4)
    pool.keys.zero_()
    Probe(loaded(timed), pool, group("1B,mixed"), device(1), 64, 4, timed.clock)
    for side in (pool.keys, pool.values):
        assert torch.isfinite(side).all()
        assert len(side.unique()) > side.numel() / 2


def test_a_step_that_is_not_the_one_wanted_is_an_error(probe: Probe) -> None:
    with pytest.raises(RuntimeError, match="planned"):
        probe._timed(Point(1, 10))
