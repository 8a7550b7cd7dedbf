"""Simple deployments against queueing theory, and Little's law."""

import numpy as np
import pytest
from harness import DEVICE, MODEL, draw, run

from twofold.cost.roofline import cost_record, step_seconds
from twofold.cost.step import Load, full_speed, stage_seconds
from twofold.plan.queueing import lindley_waits, mean_ttft, mean_ttft_pipeline
from twofold.spec import catalog
from twofold.spec.workload import Workload

PROMPT = 1024


def poisson(rate: float, requests: int, seed: int) -> Workload:
    arrivals = np.cumsum(np.random.default_rng(seed).exponential(1.0 / rate, requests))
    return Workload("poisson", arrivals, np.full(requests, PROMPT), np.ones(requests))


def prefill_seconds(pp: int = 1) -> float:
    return step_seconds(catalog.model(MODEL), catalog.device(DEVICE), pp=pp, prompts=[(0, PROMPT)])


@pytest.mark.parametrize("utilisation", [0.3, 0.6, 0.8])
def test_one_prompt_at_a_time_is_m_d_1(utilisation):
    service = prefill_seconds()
    workload = poisson(utilisation / service, 100_000, seed=7)
    result = run(f"1B,prefill-first,prefill-tokens={PROMPT}", workload)
    waits = lindley_waits(np.diff(workload.arrival_s, prepend=0.0), service)
    np.testing.assert_allclose(result.ttft_s, service + waits, rtol=0, atol=1e-6)
    assert result.ttft_s.mean() == pytest.approx(mean_ttft(utilisation / service, service), rel=0.03)


@pytest.mark.parametrize("utilisation", [0.3, 0.8])
def test_two_pipeline_stages_are_distserve_equation_2(utilisation):
    whole = prefill_seconds(pp=2)
    rate = 2 * utilisation / whole
    workload = poisson(rate, 50_000, seed=8)
    result = run(f"1B,pp2,prefill-first,prefill-tokens={PROMPT}", workload)
    assert result.ttft_s.mean() == pytest.approx(mean_ttft_pipeline(rate, whole, 2), rel=0.03)
    np.testing.assert_allclose(result.ttft_s, tandem(workload.arrival_s) - workload.arrival_s, rtol=0, atol=1e-6)


def tandem(arrivals: np.ndarray) -> np.ndarray:
    """When each prompt leaves two stages in a row, by their recursion; at most two prompts are under way."""
    cost = cost_record(catalog.model(MODEL), catalog.device(DEVICE), pp=2)[0]
    load = Load(0, 0, PROMPT, PROMPT * PROMPT // 2, 0, 1)
    first, last = (stage_seconds(cost, load, full_speed(), end) for end in (False, True))
    hop = cost.hop_s + cost.hop_token_s * PROMPT
    left = np.zeros(len(arrivals))
    free_first = free_last = 0.0
    for i, arrival in enumerate(arrivals):
        free_first = max(arrival, free_first, left[i - 2] if i > 1 else 0.0) + first
        free_last = max(free_first + hop, free_last) + last
        left[i] = free_last
    return left


@pytest.mark.parametrize("text", ["1B,chunked=512", "1B,multiplexed", "2P1D", "2B,pp2"])
def test_little_s_law_is_exact(text):
    requests = run(text, draw(2000, 12, 2)).requests
    arrive, leave = requests["arrival_s"].to_numpy(), requests["finish_at_s"].to_numpy()
    instants = np.concatenate([arrive, leave])
    order = np.argsort(instants, kind="stable")
    inside = np.cumsum(np.repeat([1, -1], len(arrive))[order])
    span = instants.max() - instants.min()
    number = (inside[:-1] * np.diff(instants[order])).sum() / span
    assert inside.min() >= 0
    assert inside[-1] == 0
    assert number == pytest.approx(len(arrive) / span * requests["e2e_s"].mean(), rel=1e-12)


def test_waiting_requests_of_the_samples_obey_little_s_law():
    result = run("1B,request-level", draw(4000, 6, 3, output="fixed:40"))
    queue = result.queue
    assert 200 <= len(queue) <= 400
    assert np.ptp(np.diff(queue["time_s"])) < 1e-6
    queued = result.requests["queued_s"].sum() / result.duration_s
    assert queue["waiting"].mean() == pytest.approx(queued, rel=0.1)
