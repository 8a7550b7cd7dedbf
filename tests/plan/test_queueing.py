"""DistServe's queueing formulas against the chapter, against simulation and against each other."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.errors import SpecError
from twofold.plan.queueing import (
    crossing_rate,
    devices_needed,
    kv_bytes_per_second,
    lindley_waits,
    md1_mean_wait,
    mean_ttft,
    mean_ttft_pipeline,
    mean_ttft_tensor,
    simulated_mean_ttft,
    whole_replicas,
)


def test_exercise_4_of_the_lecture() -> None:
    assert mean_ttft(3, 0.2) == pytest.approx(0.35)
    assert mean_ttft_pipeline(3, 0.2) == pytest.approx(0.2 + 0.12 / 5.6)
    assert mean_ttft_tensor(3, 0.2, 1.6) == pytest.approx(0.1625)
    assert mean_ttft_pipeline(6, 0.2) == pytest.approx(0.275)
    assert mean_ttft_tensor(6, 0.2, 1.6) == pytest.approx(0.3125)


def test_an_unstable_queue_has_no_mean() -> None:
    assert mean_ttft(6, 0.2) == math.inf
    assert mean_ttft(5, 0.2) == math.inf
    assert simulated_mean_ttft(10, 0.2) == math.inf


def test_pipeline_formula_is_distserve_equation_2() -> None:
    rate, prefill = 8.0, 0.1
    assert mean_ttft_pipeline(rate, prefill) == pytest.approx(prefill + rate * prefill**2 / (4 * (2 - rate * prefill)))


@pytest.mark.parametrize("stages", [1, 2, 4])
def test_lindley_agrees_with_the_formula(stages: int) -> None:
    rate, prefill = 8.0, 0.1
    simulated = simulated_mean_ttft(rate, prefill, stages=stages, seed=3)
    assert simulated == pytest.approx(mean_ttft_pipeline(rate, prefill, stages), rel=0.02)


@given(
    gaps=st.lists(st.floats(0, 10), min_size=1, max_size=60),
    service=st.lists(st.floats(0.01, 10), min_size=60, max_size=60),
)
def test_vectorised_recursion_is_the_recursion(gaps: list[float], service: list[float]) -> None:
    times = np.array(service[: len(gaps)])
    waits, wait = [], 0.0
    for i, gap in enumerate(gaps):
        wait = 0.0 if i == 0 else max(0.0, wait + times[i - 1] - gap)
        waits.append(wait)
    assert lindley_waits(np.array(gaps), times) == pytest.approx(waits, abs=1e-9)


@given(
    stages=st.integers(2, 16),
    share=st.floats(0.05, 0.95),
    prefill=st.floats(0.01, 5.0),
)
def test_both_means_are_equal_at_the_crossing(stages: int, share: float, prefill: float) -> None:
    speedup = 1 + share * (stages - 1)
    rate = crossing_rate(prefill, speedup, stages)
    assert 0 < rate < speedup / prefill
    pipeline = mean_ttft_pipeline(rate, prefill, stages)
    assert mean_ttft_tensor(rate, prefill, speedup) == pytest.approx(pipeline, rel=1e-6)
    assert mean_ttft_tensor(0.9 * rate, prefill, speedup) < mean_ttft_pipeline(0.9 * rate, prefill, stages)


@pytest.mark.parametrize(("speedup", "low", "high"), [(1.5, 8, 11), (1.7, 11, 13), (1.9, 13, 19)])
def test_crossings_of_the_lecture(speedup: float, low: float, high: float) -> None:
    assert low < crossing_rate(0.1, speedup) < high


def test_a_speedup_that_never_crosses_is_refused() -> None:
    with pytest.raises(SpecError, match="below the number of stages, 2"):
        crossing_rate(0.1, 2.0)


@pytest.mark.parametrize(("rate", "prefill"), [(-1.0, 0.1), (math.nan, 0.1), (1.0, 0.0), (1.0, math.inf)])
def test_impossible_queues_are_refused(rate: float, prefill: float) -> None:
    with pytest.raises(SpecError):
        md1_mean_wait(rate, prefill)


def test_exercise_6_of_the_lecture() -> None:
    apart = [devices_needed(rate, (7.7, 4), (86.0, 8)) for rate in (5, 30, 200)]
    together = [devices_needed(rate, (11.4, 8)) for rate in (5, 30, 200)]
    assert apart == [12, 24, 128]
    assert together == [8, 24, 144]


@given(replicas=st.integers(1, 1000), goodput=st.floats(0.01, 1000))
def test_an_exact_multiple_needs_no_spare_replica(replicas: int, goodput: float) -> None:
    assert whole_replicas(replicas * goodput, goodput) == replicas
    assert whole_replicas(replicas * goodput * 1.001, goodput) > replicas


def test_no_goodput_serves_no_rate() -> None:
    with pytest.raises(SpecError, match="goodput"):
        whole_replicas(1.0, 0.0)


def test_kv_hand_over_of_exercise_5() -> None:
    assert kv_bytes_per_second(20, 2000, 327_680) == pytest.approx(13.1072e9)
