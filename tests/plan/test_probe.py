import numpy as np
import pytest
from cases import kept_by, log_uniform, random_case, values_of
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import twofold
from twofold.errors import SpecError
from twofold.plan.cache import Cache
from twofold.plan.probe import SUSTAINABLE_TTFT_S, binding_limit, probe
from twofold.simulate.run import simulate
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload

ONE = twofold.deployment("1B,prefill-first", model="llama-3-8b", device="H100")


def steady(count: int, prompt: int = 2048, output: int = 1) -> Workload:
    return Workload("steady", np.arange(count) * 1.0, np.full(count, prompt), np.full(count, output))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_what_is_recalled_is_what_is_computed_for_this_slo_and_for_others(seed, tmp_path_factory):
    rng = np.random.default_rng(seed)
    try:
        case = random_case(rng)
        workload = case.workload.at_rate(log_uniform(rng, 0.5, 500))
        result = simulate(workload, case.deployment, "ttft<=1s, tpot<=20ms")
    except SpecError:
        assume(False)
    slos = [kept_by(rng, values_of(result), result.tbt_quantile) for _ in range(2)]
    slos += [slo.scaled(0.9) for slo in slos]
    cache = Cache(tmp_path_factory.mktemp("cache") / "runs.sqlite")
    for slo in slos:
        computed = probe(workload, case.deployment, slo)
        recalled = probe(workload, case.deployment, slo, cache=cache)
        again = probe(workload, case.deployment, slo, cache=cache)
        assert (computed.failed is None) == (recalled.failed is None)
        assert again == recalled
    cache.close()


def test_a_run_that_is_recalled_is_not_simulated(tmp_path, monkeypatch):
    cache, slo = Cache(tmp_path / "runs.sqlite"), Slo.parse("ttft<=1s")
    first = probe(steady(20), ONE, slo, cache=cache)
    monkeypatch.setattr("twofold.plan.probe.simulate", None)
    assert probe(steady(20), ONE, slo, cache=cache) == first
    assert probe(steady(20), ONE, Slo.parse("ttft<=1ms"), cache=cache).failed == "ttft"
    cache.close()


def test_a_verdict_that_came_early_is_good_for_its_own_slo_only(tmp_path):
    cache, fast = Cache(tmp_path / "runs.sqlite"), steady(200).at_rate(40)
    assert probe(fast, ONE, Slo.parse("ttft<=1ms"), cache=cache) == probe(fast, ONE, Slo.parse("ttft<=1ms"))
    assert probe(fast, ONE, Slo.parse("ttft<=1s @50%"), cache=cache).failed == "ttft"
    assert probe(fast, ONE, Slo.parse("ttft<=3s @50%"), cache=cache).failed is None
    cache.close()


def test_the_binding_limit_names_what_most_requests_break():
    workload = steady(50, prompt=512, output=64)
    result = simulate(workload, ONE, "ttft<=10s, tpot<=1ms")
    assert binding_limit(result, Slo.parse("ttft<=10s, tpot<=1ms")) == "tpot"
    assert binding_limit(result, Slo.parse("p99 tbt<=1ms")) == "p99 tbt"
    assert binding_limit(result, Slo.parse("ttft<=10s, tpot<=1s")) is None


def test_a_queue_that_only_a_longer_run_would_show_is_not_sustained():
    overloaded = simulate(steady(150).at_rate(45), ONE, "ttft<=15s")
    assert overloaded.summary()["attainment"] == 1.0
    result = simulate(steady(1500).at_rate(45), ONE, "ttft<=1000s")
    assert np.median(result.ttft_s) > SUSTAINABLE_TTFT_S
    assert binding_limit(result, Slo.parse("ttft<=1000s")) == "queue"


def test_full_memory_is_named():
    tight = twofold.deployment("1B,memory=0.204", model="llama-3-8b", device="H100")
    result = simulate(steady(60, 300, 400).at_rate(30), tight, "ttft<=0.1s")
    assert binding_limit(result, Slo.parse("ttft<=0.1s")) == "ttft (KV full)"


def test_an_attainment_is_known_only_of_a_run_to_the_end():
    assert probe(steady(20), ONE, Slo.parse("ttft<=1s")).attainment == 1.0
    assert probe(steady(200).at_rate(100), ONE, Slo.parse("ttft<=50ms")).attainment is None


@pytest.mark.parametrize("share", [0.5, 0.9, 1.0])
def test_just_the_demanded_share_is_enough(share):
    workload = steady(20)
    ttft = simulate(workload, ONE, "ttft<=1s").ttft_s
    limit = float(np.quantile(ttft, share, method="inverted_cdf"))
    assert probe(workload, ONE, Slo(ttft_s=limit, attainment=share)).failed is None
