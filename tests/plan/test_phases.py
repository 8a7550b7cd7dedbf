"""A phase alone against closed forms: one queue, one batch, one busy period."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.cost.roofline import Roofline, cost_record, step_seconds
from twofold.cost.step import Load, chunk_pairs, full_speed, stage_line
from twofold.cost.tables import read_costs
from twofold.errors import SpecError
from twofold.plan.phases import (
    decode_alone,
    first_tokens,
    phase_slos,
    prefill_alone,
    saturating_tokens,
    steady_decode_rate,
)
from twofold.plan.queueing import lindley_waits
from twofold.simulate.run import simulate
from twofold.spec import catalog
from twofold.spec.group import Group
from twofold.spec.slo import Slo
from twofold.spec.synthetic import Synthetic
from twofold.spec.workload import Workload

MODEL, DEVICE = catalog.model("opt-13b"), catalog.device("A100")
OVERHEAD_S = Roofline().step_overhead_s


def requests(arrivals: np.ndarray, prompt: int, output: int) -> Workload:
    n = len(arrivals)
    return Workload("equal", arrivals, np.full(n, prompt), np.full(n, output))


def at_once(count: int, prompt: int, output: int) -> Workload:
    return requests(np.zeros(count), prompt, output)


def test_prefill_alone_is_lindleys_queue_and_never_decodes():
    service = step_seconds(MODEL, DEVICE, prompts=[(0, 512)])
    arrivals = np.cumsum(np.random.default_rng(1).exponential(1.25 * service, 2000))
    workload = requests(arrivals, 512, 64)
    prefill = Group(role="prefill", prefill_batch_tokens=saturating_tokens(MODEL, DEVICE))
    result = simulate(first_tokens(workload), prefill_alone(workload, MODEL, DEVICE, prefill))
    waits = lindley_waits(np.diff(arrivals, prepend=0.0), service)
    np.testing.assert_allclose(result.ttft_s, service + waits, rtol=0, atol=1e-6)
    assert result.summary()["transfers"]["count"] == 0


@pytest.mark.parametrize(("tp", "pp"), [(1, 1), (2, 1), (1, 2)])
def test_decode_alone_takes_the_time_of_its_steps_and_nothing_else(tp, pp):
    prompt, output = 300, 20
    decode = Group(role="decode", tp=tp, pp=pp)
    workload = at_once(1, prompt, output)
    result = simulate(workload, decode_alone(workload, MODEL, DEVICE, decode))
    steps = [step_seconds(MODEL, DEVICE, tp=tp, pp=pp, decode_contexts=[prompt + i]) for i in range(output - 1)]
    assert result.ttft_s[0] == pytest.approx(OVERHEAD_S, rel=1e-3)
    assert result.tpot_s[0] == pytest.approx(np.mean(steps), rel=1e-6)


def test_the_ideal_prefill_replica_is_no_limit_to_a_burst():
    workload = at_once(500, 1900, 3)
    result = simulate(workload, decode_alone(workload, MODEL, DEVICE, Group(role="decode")))
    assert result.ttft_s.max() == pytest.approx(OVERHEAD_S, rel=0.01)
    assert result.breakdown()["transfer"] < 1e-6
    assert result.completed.all()


def test_shared_prefixes_stay_with_the_replica_under_test():
    drawn = Synthetic(rate=5, requests=60, prompt="512", output="8", shared_prefix={"pool": 2, "tokens": "256"})
    workload = drawn.workload()
    prefill, decode = Group(role="prefill"), Group(role="decode")
    shared = simulate(first_tokens(workload), prefill_alone(workload, MODEL, DEVICE, prefill))
    assert shared.summary()["reused_tokens"] > 0
    fed = simulate(workload, decode_alone(workload, MODEL, DEVICE, decode))
    assert fed.summary()["prefilled_tokens"] == workload.prompt_tokens.sum()


def test_waiting_for_room_on_the_decode_replica_counts_as_tpot():
    few, many = at_once(20, 1900, 30), at_once(200, 1900, 30)
    decode = Group(role="decode", admission="reserve")
    quick, slow = (simulate(w, decode_alone(w, MODEL, DEVICE, decode)).tpot_s.max() for w in (few, many))
    assert slow > 3 * quick


@pytest.mark.parametrize(("tp", "pp"), [(1, 1), (4, 1), (2, 2)])
@pytest.mark.parametrize("name", ["opt-13b", "llama-3-8b", "mixtral-8x7b"])
def test_l_m_is_where_multiplying_overtakes_reading(name, tp, pp):
    model = catalog.model(name)
    tokens = saturating_tokens(model, DEVICE, tp=tp, pp=pp)
    record = cost_record(model, DEVICE, tp=tp, pp=pp)[0]
    lines = [
        stage_line(record, Load(0, 0, n, chunk_pairs(0, n), 0, 1), full_speed(), True) for n in (tokens - 1, tokens)
    ]
    assert [line.flops >= line.bytes for line in lines] == [False, True]


def test_l_m_is_at_most_the_context():
    slow_memory = DEVICE.replaced(bandwidth=1e9)
    assert saturating_tokens(MODEL, slow_memory) == MODEL.max_context


@settings(max_examples=25, deadline=None)
@given(
    prompt=st.integers(1, 1500),
    output=st.integers(2, 60),
    batch=st.sampled_from([4, 32, 256]),
    admission=st.sampled_from(["grow", "reserve"]),
    pp=st.sampled_from([1, 2]),
)
def test_no_run_finishes_requests_faster_than_the_steady_rate(prompt, output, batch, admission, pp):
    decode = Group(role="decode", max_batch=batch, admission=admission, pp=pp)
    workload = at_once(300, prompt, output)
    result = simulate(workload, decode_alone(workload, MODEL, DEVICE, decode))
    assert len(workload) / result.duration_s <= 1.001 * steady_decode_rate(workload, MODEL, DEVICE, decode)


def test_a_full_replica_comes_near_the_steady_rate():
    decode = Group(role="decode", admission="reserve")
    workload = at_once(2000, 900, 100)
    result = simulate(workload, decode_alone(workload, MODEL, DEVICE, decode))
    steady = steady_decode_rate(workload, MODEL, DEVICE, decode)
    assert len(workload) / result.duration_s == pytest.approx(steady, rel=0.05)


def test_without_decodes_the_steady_rate_is_infinite():
    assert steady_decode_rate(at_once(3, 10, 1), MODEL, DEVICE, Group(role="decode")) == float("inf")


def test_each_phase_keeps_its_own_limits():
    prefill, decode = phase_slos(Slo.parse("ttft<=1s, tpot<=50ms, p99 tbt<=80ms, p50 ttft<=0.5s @95%"))
    assert str(prefill) == "ttft<=1s, p50 ttft<=0.5s @95%"
    assert str(decode) == "tpot<=50ms, p99 tbt<=80ms @95%"


@pytest.mark.parametrize("slo", ["ttft<=1s", "tpot<=50ms", "ttft<=1s, tpot<=50ms, e2e<=9s", "p90 ttft<=1s"])
def test_an_slo_that_cannot_be_divided_is_refused(slo):
    with pytest.raises(SpecError, match="each phase is simulated alone"):
        phase_slos(Slo.parse(slo))


def test_l_m_of_a_fit_is_where_its_constant_is_a_quarter_of_the_step(tmp_path):
    phases = ("prefill", "decoding_smallbs", "decoding_largebs")
    rows = [f"opt-13b,1,{phase},18,0.1,0,95" for phase in phases]
    file = tmp_path / "fit.csv"
    file.write_text("\n".join(["model,tp,phase,a_const_ms,b_per_token_ms,c_ms,large_bs_threshold", *rows]))
    tokens = saturating_tokens(catalog.model("opt-13b"), catalog.device("A100"), roofline=read_costs(file))
    assert tokens == pytest.approx(3 * 18 / 0.1, abs=2)
