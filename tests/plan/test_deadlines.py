import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.plan.deadlines import Demand, demands
from twofold.plan.demand import traffic_of
from twofold.plan.probe import SUSTAINABLE_TTFT_S
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload


def test_half_of_the_first_tokens_come_within_two_seconds():
    for requests, excused in ((10, 5), (11, 5), (1, 0)):
        first, *_ = demands(Slo.parse("p99 tbt<=1s"), requests)
        assert first == Demand(excused, first_s=SUSTAINABLE_TTFT_S)


@given(requests=st.integers(1, 60), seed=st.integers(0, 2**31))
def test_a_median_within_the_limit_excuses_no_more_than_half(requests, seed):
    ttft = np.random.default_rng(seed).exponential(2.0, requests)
    excused = demands(Slo.parse("ttft<=1s"), requests)[0].excused
    if np.median(ttft) <= SUSTAINABLE_TTFT_S:
        assert (ttft > SUSTAINABLE_TTFT_S).sum() <= excused


@given(requests=st.integers(1, 300), percentile=st.sampled_from([1.0, 33.3, 50.0, 90.0, 99.0, 99.9, 100.0]))
def test_a_percentile_excuses_no_fewer_than_it_lets_be_late(requests, percentile):
    values = np.arange(1.0, requests + 1)
    limit = np.quantile(values, percentile / 100, method="inverted_cdf")
    excused = demands(Slo.parse(f"p{percentile} ttft<=1s"), requests)[1].excused
    assert (values > limit).sum() <= excused <= (values > limit).sum() + 1


def test_limits_on_single_requests_are_one_demand():
    found = demands(Slo.parse("ttft<=1s, tpot<=20ms, tbt<=50ms, e2e<=9s @90%"), 100)
    assert found[1:] == [Demand(10, 1.0, 0.02, 9.0)]


def test_a_limit_on_gaps_is_joined_with_those_on_first_tokens():
    found = demands(Slo.parse("p90 ttft<=0.5s, p99 tpot<=20ms"), 1000)
    assert Demand(100 + 10, 0.5, 0.02) in found
    assert Demand(500 + 10, SUSTAINABLE_TTFT_S, 0.02) in found
    assert all(demand.first < math.inf for demand in found if demand.excused > 100)


def test_what_no_request_must_keep_is_not_demanded():
    assert demands(Slo(tpot_s=0.02, attainment=0.5), 10) == [Demand(5, SUSTAINABLE_TTFT_S), Demand(5, gap_s=0.02)]


def test_the_last_token_is_due_after_the_first_and_its_gaps_or_by_the_end():
    traffic = traffic_of(Workload("two", np.array([0.0, 1.0]), np.array([5, 5]), np.array([1, 101])))
    assert Demand(0, 1.0, 0.02).finish(traffic) == pytest.approx([1.0, 3.0])
    assert Demand(0, 1.0, 0.02, 2.0).finish(traffic) == pytest.approx([1.0, 2.0])
    assert Demand(0, end_s=2.0).finish(traffic) == pytest.approx([2.0, 2.0])
    assert np.isinf(Demand(0, gap_s=0.02).finish(traffic)).all()
    assert Demand(0, 3.0, end_s=2.0).first == 2.0
