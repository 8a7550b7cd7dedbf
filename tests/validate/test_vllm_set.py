"""A vLLM run that the simulator itself made is predicted as it was, and its host seconds are found again."""

import numpy as np
import pytest
from made_sets import request

from twofold.cost.operators import read_operators
from twofold.cost.roofline import Roofline
from twofold.simulate.run import simulate
from twofold.validate.vllm_run import read_vllm_run
from twofold.validate.vllm_set import as_deployed, fitted_step_s, ranks

HOST_S = 7e-4


@pytest.fixture
def costs(data):
    return read_operators(data / "vllm_runs" / "RTX4090-Llama-3.1-8B" / "profile", Roofline())


def test_what_a_run_does_not_say_is_vllms_default(make_run, costs):
    run = read_vllm_run(make_run([request(0, 0.0, 0.0, 0.1, 0.2, 10, 5)], engine_kwargs={}, kv_cache={}))
    (group,) = as_deployed(run, costs).groups
    assert (group.budget_tokens, group.max_batch, group.memory_fraction) == (2048, 256, 0.9)
    assert (group.async_scheduling, group.prefix_cache, group.kv_tokens) == (True, True, None)


def test_the_seconds_of_the_host_are_found_again(make_run, costs, tmp_path):
    drawn = np.random.default_rng(5)
    made = [request(i, 0.2 * i, 0.0, 1.0, 2.0, int(drawn.integers(50, 900)), 40) for i in range(40)]
    run = read_vllm_run(make_run(made))
    deployment = as_deployed(run, costs)
    result = simulate(run.workload, deployment, roofline=costs.with_host(step_s=HOST_S))
    first, last = result.arrival_s + result.ttft_s, result.arrival_s + result.e2e_s
    rows = [each | {"first_token_ts": a, "last_token_ts": b} for each, a, b in zip(made, first, last, strict=True)]
    (tmp_path / "again").mkdir()
    (tmp_path / "vllm_runs").rename(tmp_path / "again" / "vllm_runs")
    served = read_vllm_run(make_run(rows))
    assert fitted_step_s(served, deployment, costs) == pytest.approx(HOST_S, rel=0.02)


def test_a_percentile_that_is_missed_is_told_by_rank_too(data):
    folder = data / "vllm_runs" / "RTX4090-Llama-3.1-8B"
    run, costs = read_vllm_run(folder), read_operators(folder / "profile", Roofline())
    alone = simulate(run.workload, as_deployed(run, costs), roofline=costs)
    (said,) = ranks(run, alone, 1e-9)
    assert all(name in said for name in ("TTFT predicted as Median", "TTFT predicted as P99", "TPOT predicted as P90"))
    value = np.percentile(alone.ttft_s, 95)
    within = 100 * (run.ttft_s <= value).mean()
    assert f"{within:.1f} % of the requests were within the TTFT predicted as P95 ({1e3 * value:,.1f} ms; " in said
    assert f"{1e3 * run.ttft_s[run.ttft_s <= value].max():,.1f} ms and " in said
    assert ranks(run, alone, None) == ranks(run, alone, 9.0) == ()
