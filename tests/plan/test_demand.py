import math

import numpy as np
import pytest
from cases import random_workload
from hypothesis import given
from hypothesis import strategies as st

from twofold.plan.demand import duties, highest_rate, last_tokens, traffic_of
from twofold.spec.workload import Workload

RATES = [float(rate) for rate in np.geomspace(0.1, 1000, 400)]


def even(count: int, prompt: int = 10, output: int = 5, **options) -> Workload:
    return Workload("even", np.arange(float(count)), np.full(count, prompt), np.full(count, output), **options)


def needs(count: int, work: float, slack: float, excused: int = 0, **options):
    traffic = traffic_of(even(count))
    return duties(traffic, np.full(count, work), np.full(count, slack), excused, **options)


def test_work_over_the_time_there_is_for_it():
    assert needs(101, 0.5, 2.0).replicas_needed(1.0) == pytest.approx(101 * 0.5 / 102)
    assert needs(101, 0.5, 2.0).replicas_needed(1e9) == pytest.approx(101 * 0.5 / 2)


def test_the_excused_are_those_with_the_most_work():
    traffic = traffic_of(even(4))
    asked = duties(traffic, np.array([1.0, 9.0, 2.0, 8.0]), np.full(4, 1.0), 2)
    assert asked.replicas_needed(1e9) == pytest.approx(3.0)


def test_what_is_spared_is_taken_off():
    assert needs(10, 1.0, 1.0, spared_s=4.0).replicas_needed(1e9) == pytest.approx(6.0)
    assert needs(10, 1.0, 1.0, spared_s=math.inf).replicas_needed(1e9) == 0.0


def test_early_deadlines_count_although_late_ones_are_far():
    traffic = traffic_of(even(100))
    slack = np.where(np.arange(100) < 50, 0.1, 1e6)
    assert duties(traffic, np.ones(100), slack, 0).replicas_needed(100.0) > 40


@given(replicas=st.integers(1, 50), work=st.floats(0.01, 10), excused=st.integers(0, 40))
def test_the_highest_rate_is_the_first_that_cannot_be_served(replicas, work, excused):
    asked = needs(50, work, 1.0, excused)
    found = highest_rate(asked, replicas, RATES, {})
    if found < math.inf:
        assert asked.replicas_needed(found) > replicas
    below = [rate for rate in RATES if rate < found]
    assert not below or asked.replicas_needed(below[-1]) <= replicas * (1 + 1e-6)


@given(seed=st.integers(0, 2**31))
def test_sums_over_tokens_are_those_of_the_tokens_one_by_one(seed):
    workload = random_workload(np.random.default_rng(seed)).without_hashes()
    traffic = traffic_of(workload)
    for i in range(min(5, len(workload))):
        prompt, output = int(workload.prompt_tokens[i]), int(workload.output_tokens[i])
        contexts = [prompt + j for j in range(output - 1)]
        assert traffic.context[i] == traffic.held[i] == sum(contexts)
        assert traffic.pairs[i] == sum(range(prompt))
        assert last_tokens(traffic).context[i] == (contexts[-1] if contexts else 0)


def test_shared_pieces_need_not_be_computed_nor_held_twice():
    hashes = {"hash_tokens": 4, "hash_start": np.array([0, 3, 5]), "hash_ids": np.array([1, 2, 3, 1, 2])}
    traffic = traffic_of(even(2, **hashes))
    assert traffic.fresh.tolist() == [2.0, 2.0]
    assert traffic.pairs.tolist() == [2 * 8 + 1.0, 2 * 8 + 1.0]
    assert traffic.held.tolist() == [2 + 3 + 4 + 5] * 2


def test_what_is_shared_beyond_the_prompt_is_not_held_until_the_context_is_beyond_it():
    hashes = {"hash_tokens": 4, "hash_start": np.array([0, 3, 6]), "hash_ids": np.array([1, 2, 3, 1, 2, 3])}
    traffic = traffic_of(even(2, **hashes))
    assert traffic.fresh.tolist() == [1.0, 1.0]
    assert traffic.held.tolist() == [0 + 0 + 0 + 1] * 2


def test_a_lone_request_has_no_rate_but_its_work():
    lone = duties(traffic_of(even(1)), np.array([3.0]), np.array([1.0]), 0)
    assert lone.replicas_needed(5.0) == pytest.approx(3.0)
