import numpy as np
import pytest

import twofold
from twofold.cost.roofline import step_seconds
from twofold.plan.goodput import PRECISION, goodput
from twofold.plan.probe import binding_limit
from twofold.spec import catalog
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload

PROMPT = 2048


def steady(count: int, prompt: int = PROMPT, output: int = 1) -> Workload:
    return Workload("steady", np.arange(count) * 1.0, np.full(count, prompt), np.full(count, output))


def one_by_one() -> twofold.deployment:
    return twofold.deployment(f"1B,prefill-first,prefill-tokens={PROMPT}", model="llama-3-8b", device="H100")


def prefill_seconds() -> float:
    return step_seconds(catalog.model("llama-3-8b"), catalog.device("H100"), prompts=[(0, PROMPT)])


def test_goodput_of_a_d_d_1_queue_is_its_service_rate():
    service = prefill_seconds()
    slo = Slo(ttft_s=1.5 * service, attainment=0.99)
    found = goodput(steady(400), one_by_one(), slo, guess=3.0)
    assert found.limit == "ttft"
    assert found.rate == pytest.approx(1 / service, rel=1.5 * PRECISION)


@pytest.mark.parametrize("guess", [0.01, 1.0, 500.0])
def test_goodput_does_not_depend_on_the_guess(guess):
    service = prefill_seconds()
    found = goodput(steady(400), one_by_one(), Slo(ttft_s=1.5 * service, attainment=0.99), guess=guess)
    assert found.rate == pytest.approx(1 / service, rel=1.5 * PRECISION)


def test_an_slo_below_an_isolated_request_is_met_at_no_rate():
    found = goodput(steady(20), one_by_one(), Slo(ttft_s=0.5 * prefill_seconds()))
    assert found.rate == 0.0
    assert found.limit == "ttft"


def test_the_trap_of_a_finite_run_is_not_goodput():
    slo = Slo(ttft_s=15.0)
    overloaded = twofold.simulate(steady(150).at_rate(2.0 / prefill_seconds()), one_by_one(), slo)
    assert overloaded.summary()["attainment"] == 1.0
    long_run = twofold.simulate(steady(1500).at_rate(2.0 / prefill_seconds()), one_by_one(), slo)
    assert binding_limit(long_run, slo) is not None
    assert binding_limit(long_run, slo) in ("queue", "ttft")


def test_the_binding_limit_names_what_most_requests_break():
    workload = steady(50, prompt=512, output=64)
    result = twofold.simulate(workload, one_by_one(), "ttft<=10s, tpot<=1ms")
    assert binding_limit(result, Slo.parse("ttft<=10s, tpot<=1ms")) == "tpot"
    assert binding_limit(result, Slo.parse("p99 tbt<=1ms")) == "p99 tbt"
    assert binding_limit(result, Slo.parse("ttft<=10s, tpot<=1s")) is None
