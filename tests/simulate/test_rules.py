import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from twofold.simulate.rules import LIMITS, most_lost, rules_of
from twofold.spec.slo import Slo


@given(requests=st.integers(1, 3000), attainment=st.floats(0.001, 1.0))
def test_one_more_lost_is_too_many(requests, attainment):
    lost = most_lost(requests, attainment)
    kept = np.zeros(requests, bool)
    kept[lost:] = True
    assert kept.mean() >= attainment or lost == 0
    if lost < requests:
        kept[lost] = False
        assert kept.mean() < attainment


@given(lost=st.integers(0, 200), requests=st.integers(1, 200))
def test_a_share_that_was_reached_may_be_demanded(lost, requests):
    kept = np.arange(requests) >= lost
    if kept.any():
        assert most_lost(requests, float(kept.mean())) == min(lost, requests)


def test_one_rule_for_single_limits_one_a_percentile_and_two_for_what_is_sustainable():
    rules = rules_of(Slo.parse("ttft<=1s, tbt<=50ms, p99 e2e<=9s, p99 tbt<=1s @90%"), 101, 2.0)
    limits = [{name: rule[name] for name in LIMITS if rule[name] < math.inf} for rule in rules]
    assert limits == [{"ttft_s": 1.0, "tbt_s": 0.05}, {"e2e_s": 9.0}, {"ttft_s": 2.0}, {"slot_s": 2.0}]
    assert rules.allowed.tolist() == [10, 2, 50, 50]


@given(requests=st.integers(1, 400), seed=st.integers(0, 2**31))
def test_a_median_is_late_once_more_than_half_are(requests, seed):
    waits = np.random.default_rng(seed).exponential(3.0, requests)
    allowed = rules_of(Slo.parse("ttft<=1s"), requests, 2.0).allowed[-1]
    if (waits > 2.0).sum() > allowed:
        assert np.median(waits) > 2.0
