"""Steps that are planned while the one before them runs: arrivals and freed memory are seen one step later."""

import numpy as np
import pytest
from harness import SCARCE, draw, listed, run, steps

from twofold.errors import SpecError
from twofold.spec.group import Group

PLAIN, AHEAD = "1B,chunked=512", "1B,chunked=512,async"


def boundary(result, time, later):
    """The end of a step that is ``later`` steps after the first one that ends at ``time`` or later."""
    ends = np.sort(steps(result).end)
    return ends[np.searchsorted(ends, time - 1e-12) + later]


@pytest.mark.parametrize(("text", "later"), [(PLAIN, 0), (AHEAD, 1)])
def test_an_arrival_during_a_step_starts_one_step_later(text, later):
    result = run(text, listed((0.0, 256, 200), (0.2, 256, 2)), step_by_step=True, timeline=True)
    assert 0.2 + result.requests["queued_s"][1] == pytest.approx(boundary(result, 0.2, later), abs=1e-9)


def test_an_idle_replica_sees_an_arrival_at_once():
    workload = listed((0.0, 256, 4), (5.0, 256, 4))
    plain, ahead = (run(text, workload) for text in (PLAIN, AHEAD))
    np.testing.assert_array_equal(plain.e2e_s, ahead.e2e_s)


@pytest.mark.parametrize(("text", "later"), [(PLAIN, 0), (AHEAD, 1)])
def test_a_seat_is_free_one_step_after_its_request_has_ended(text, later):
    workload = listed((0.0, 64, 3), (0.0, 64, 40), (0.0, 64, 3))
    result = run(f"{text},batch=2", workload, step_by_step=True, timeline=True)
    assert result.requests["queued_s"][2] == pytest.approx(boundary(result, result.e2e_s[0], later), abs=1e-9)


@pytest.mark.parametrize("options", ["", f",{SCARCE}", f",{SCARCE},batch=6"])
def test_running_ahead_changes_nothing(options):
    workload = draw(80)
    fast, slow = (run(AHEAD + options, workload, step_by_step=step) for step in (False, True))
    np.testing.assert_array_equal(fast.e2e_s, slow.e2e_s)
    assert fast.completed.all()


@pytest.mark.parametrize("text", ["1P,async + 1D", "1P + 1D,async", "2B,prefill-first,async", "1B,mixed,async"])
def test_every_request_ends_and_its_life_is_divided(text):
    result = run(text, draw(60))
    assert result.completed.all()
    assert sum(result.breakdown().values()) == pytest.approx(result.e2e_s.mean())


def test_a_replica_that_dies_with_an_inbox_loses_no_request():
    faults = ({"at_s": 1.0, "target": 0, "for_s": 0.5},)
    result = run(AHEAD, draw(120, rate=60.0), faults=faults)
    assert result.completed.all()


@pytest.mark.parametrize("fields", [{"policy": "multiplexed"}, {"pp": 2}])
def test_what_cannot_plan_ahead(fields):
    with pytest.raises(SpecError, match="async_scheduling"):
        Group(async_scheduling=True, **fields)
