"""Crews keep to their cores, with a team of their size."""

import os

import pytest
import torch

from twofold.engine.cores import Crews, own_cores
from twofold.errors import SpecError

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="threads are pinned on Linux only")
MINE = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def where():
    return sorted(os.sched_getaffinity(0)), torch.get_num_threads(), torch.is_inference_mode_enabled()


@pytest.fixture
def crews():
    made = Crews(MINE[:2])
    yield made
    made.close()


@pytest.mark.skipif(len(MINE) < 2, reason="two lanes need two cores")
def test_lanes_of_a_split_have_different_cores(crews):
    threads = torch.get_num_threads()
    prefill, decode = crews.pair(1, 1)
    found = [crew.submit(where).result() for crew in (prefill, decode)]
    assert found == [([MINE[0]], 1, True), ([MINE[1]], 1, True)]
    whole, same = crews.pair(2, 0)
    assert whole is same
    assert whole.submit(where).result() == (MINE[:2], 2, True)
    assert crews.pair(0, 2) == (whole, whole)
    assert crews.pair(1, 1) == (prefill, decode)
    assert (sorted(os.sched_getaffinity(0)), torch.is_inference_mode_enabled()) == (MINE, False)
    assert threads >= 1


def test_jobs_of_a_crew_run_in_order_and_raise_to_who_waits(crews):
    crew, _ = crews.pair(1, 0)
    done = []
    jobs = [crew.submit(done.append, number) for number in range(20)]
    jobs[-1].result()
    assert done == list(range(20))
    with pytest.raises(ZeroDivisionError):
        crew.submit(divmod, 1, 0).result()


def test_more_cores_than_there_are_is_one_line():
    with pytest.raises(SpecError, match=f"may use {len(MINE)} cores") as refusal:
        own_cores(len(MINE) + 1)
    assert "\n" not in str(refusal.value)
    assert own_cores(1) == MINE[:1]
