"""Closed-loop load: so many requests under way, whatever the deployment."""

import numpy as np
import pytest
from harness import deploy, draw, run

import twofold
from twofold.errors import SpecError

DEPLOYMENTS = ["1B,chunked=512", "1B,chunked=512,async", "2B,prefill-first", "2P1D", "1B,multiplexed", "2B,pp2"]


def closed(text: str, requests: int, concurrency: int, **options: object) -> twofold.Result:
    return twofold.simulate(draw(requests), deploy(text), concurrency=concurrency, **options)


@pytest.mark.parametrize("text", DEPLOYMENTS)
@pytest.mark.parametrize("concurrency", [1, 7])
def test_so_many_are_under_way_until_the_last_have_started(text, concurrency):
    result = closed(text, 60, concurrency)
    assert result.completed.all()
    ends = np.sort(result.arrival_s + result.e2e_s)
    np.testing.assert_allclose(np.sort(result.arrival_s)[concurrency:], ends[: 60 - concurrency], rtol=1e-12)


@pytest.mark.parametrize("text", DEPLOYMENTS)
def test_littles_law(text):
    result = closed(text, 400, 8)
    until = np.sort(result.arrival_s + result.e2e_s)[-8]
    busy = np.minimum(result.arrival_s + result.e2e_s, until) - np.minimum(result.arrival_s, until)
    assert busy.sum() / until == pytest.approx(8.0, rel=1e-9)


@pytest.mark.parametrize("text", DEPLOYMENTS)
def test_running_ahead_changes_nothing(text):
    ahead, slow = (closed(text, 60, 7, step_by_step=step) for step in (False, True))
    np.testing.assert_array_equal(ahead.e2e_s, slow.e2e_s)
    np.testing.assert_array_equal(ahead.arrival_s, slow.arrival_s)


def test_one_at_a_time_never_waits():
    result = closed("1B,chunked=512", 20, 1)
    alone = [run("1B,chunked=512", draw(20).picked(np.array([i]))).ttft_s[0] for i in range(20)]
    np.testing.assert_allclose(result.ttft_s, alone, rtol=1e-12)


def test_more_clients_than_requests_all_start_at_once():
    result = closed("1B,chunked=512", 5, 64)
    assert (result.arrival_s == 0.0).all()
    assert result.completed.all()


def test_a_request_that_fits_nowhere_makes_room_for_the_next():
    workload = draw(12)
    workload.prompt_tokens[3] = 10_000_000
    result = twofold.simulate(workload, deploy("1B,chunked=512"), concurrency=2)
    assert result.completed.sum() == 11
    assert result.summary()["rejected"] == 1


def test_the_summary_has_the_concurrency_in_place_of_a_rate():
    summary = closed("1B,chunked=512", 10, 2).summary()
    assert (summary["rate_req_s"], summary["concurrency"]) == (None, 2)
    assert run("1B,chunked=512", draw(10)).summary()["concurrency"] is None


def test_what_a_closed_loop_refuses():
    with pytest.raises(SpecError, match="concurrency"):
        closed("1B,chunked=512", 5, 0)
    fault = {"rate_per_hour": 1.0, "mean_repair_s": 1.0}
    where = deploy("2B,chunked=512", faults=(fault,))
    with pytest.raises(SpecError, match="rate_per_hour"):
        twofold.simulate(draw(5), where, concurrency=2)
