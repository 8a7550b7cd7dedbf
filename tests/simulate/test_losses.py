"""A run that stops early has the verdict of the run to its end."""

import numpy as np
import pytest
from harness import SCARCE, deploy, draw
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.simulate.attainment import attainment_of, percentile_of
from twofold.simulate.rules import rules_of
from twofold.simulate.run import simulate
from twofold.spec.slo import PercentileLimit, Slo

SUSTAINABLE_S = 2.0
TEXTS = (
    "1B",
    "1B,prefill-first",
    "1B,mixed,batch=4",
    "1B,multiplexed",
    "1B,tp2,pp2",
    "2B,request-level,batch=8",
    f"1B,{SCARCE}",
    "1B,memory=0.2022",
    "1P1D",
    "1P2D,batch=3",
    f"1P + 1D,{SCARCE}",
)


def passes(result, slo: Slo) -> bool:
    """The definition: limits by the share of requests, percentiles, and medians of first tokens and of slot waits."""
    ttft = np.where(np.isnan(result.ttft_s), np.inf, result.ttft_s)
    return (
        (not slo.limits or attainment_of(result, slo) >= slo.attainment)
        and not any(percentile_of(result, limit) > limit.limit_s for limit in slo.percentiles)
        and bool(np.median(ttft) <= SUSTAINABLE_S and np.median(result.slot_wait_s) <= SUSTAINABLE_S)
    )


def random_slo(rng: np.random.Generator, result) -> Slo:
    """Limits near what the run to the end has shown: about half of them are kept."""
    values = {"ttft": result.ttft_s, "tpot": result.tpot_s, "tbt": result.max_tbt_s, "e2e": result.e2e_s}
    chosen = [metric for metric in values if rng.random() < 0.5] or ["ttft"]
    limits, percentiles = {}, []
    for metric in chosen:
        known = values[metric][~np.isnan(values[metric])]
        limit = max(1e-6, float(np.quantile(known, rng.uniform(0.3, 1.0)))) if len(known) else 1.0
        if rng.random() < 0.6:
            limits[f"{metric}_s"] = limit
        else:
            percentiles.append(PercentileLimit(metric, float(rng.choice([50, 90, 99, 100])), limit))
    return Slo(**limits, attainment=float(rng.uniform(0.3, 1.0)), percentiles=tuple(percentiles))


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_stopping_early_changes_no_verdict(seed):
    rng = np.random.default_rng(seed)
    workload = draw(int(rng.integers(2, 60)), float(rng.choice([1, 20, 300])), seed)
    text = str(rng.choice(TEXTS))
    deployment = deploy(text, mixed_pool="P" in text and bool(rng.integers(2)))
    whole = simulate(workload, deployment, "ttft<=1s")
    slo = random_slo(rng, whole)
    rules = rules_of(slo, len(workload), SUSTAINABLE_S)
    for step_by_step in (False, True):
        early = simulate(workload, deployment, slo, rules=rules.copy(), step_by_step=step_by_step)
        assert passes(early, slo) == passes(whole, slo)
        if passes(whole, slo):
            assert not early.stopped
            np.testing.assert_array_equal(early.e2e_s, whole.e2e_s)


def test_hopeless_runs_do_stop():
    slo = Slo.parse("ttft<=1us")
    early = simulate(draw(200, 5.0), deploy("1B"), slo, rules=rules_of(slo, 200, SUSTAINABLE_S))
    assert early.stopped
    assert 20 < (~np.isnan(early.ttft_s)).sum() < 60


def test_a_refused_request_breaks_every_limit_but_that_on_slots():
    workload = draw(50, 5.0, prompt="fixed:4000")
    full = deploy("1B,memory=0.2022")
    for text in ("e2e<=1000s", "p99 tpot<=1000s", "p50 tbt<=1000s"):
        slo = Slo.parse(text)
        early = simulate(workload, full, slo, rules=rules_of(slo, 50, SUSTAINABLE_S))
        assert early.stopped
        assert not passes(early, slo)


@pytest.mark.parametrize("text", ["1B", "1P1D"])
def test_a_request_counts_once_a_rule(text):
    slo = Slo.parse("ttft<=1us, tpot<=1us, e2e<=1us @50%")
    rules = rules_of(slo, 40, SUSTAINABLE_S)
    early = simulate(draw(40, 0.2), deploy(text), slo, rules=rules)
    assert early.stopped
    assert rules.broken[0] == 21
