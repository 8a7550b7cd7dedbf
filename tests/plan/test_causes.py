import numpy as np
import pytest

import twofold
from twofold.plan.causes import CAUSES, Binding, explain_binding
from twofold.plan.occupancy import occupancies
from twofold.plan.probe import binding_limit
from twofold.spec.slo import Slo
from twofold.spec.synthetic import Synthetic
from twofold.spec.workload import Workload

CHAT = Synthetic(rate=10, requests=250, seed=3, prompt="lognormal:755:0.6", output="lognormal:120:0.8").workload()


def bound(text: str, slo: str, workload: Workload, bursts: bool = False, **options: object) -> Binding:
    limits = Slo.parse(slo)
    deployment = twofold.deployment(text, model="llama-3-8b", device="H100", **options)
    result = twofold.simulate(workload, deployment, limits)
    limit = binding_limit(result, limits)
    assert limit is not None
    alone = twofold.simulate(workload.at_rate(0.01 * workload.rate), deployment)
    return explain_binding(result, limits, limit, occupancies(result), alone=alone, bursts=bursts)


CASES = [
    ("1P1D", "ttft<=5ms, tpot<=1s", 1.0, {}, "ttft", "prompt length"),
    ("1P3D", "ttft<=0.2s, tpot<=20ms", 120.0, {}, "ttft", "saturation"),
    ("2B,chunked=512,memory=0.235", "ttft<=0.2s, tpot<=50ms", 60.0, {}, "ttft (KV full)", "KV memory"),
    ("2P2D", "ttft<=0.5s, tpot<=20ms", 80.0, {"link": "25GbE"}, "tpot", "KV link"),
    ("2P2D", "ttft<=0.5s, tbt<=20ms", 20.0, {"link": "25GbE"}, "tbt", "KV link"),
    ("2P + 1D,batch=8", "ttft<=0.5s, tpot<=20ms", 50.0, {}, "tpot", "decode room"),
    ("1B,chunked=512", "ttft<=5s, tpot<=4ms", 5.0, {}, "tpot", "decode steps"),
    ("1P1D", "ttft<=5s, p99 tbt<=4ms", 5.0, {}, "p99 tbt", "decode steps"),
    ("1B,prefill-first", "ttft<=1s, tbt<=40ms", 20.0, {}, "tbt", "prompts between decodes"),
    ("1B,prefill-first", "ttft<=1s, p99 tbt<=30ms", 25.0, {}, "p99 tbt", "prompts between decodes"),
    ("1B,prefill-first", "ttft<=1s, tpot<=15ms", 32.0, {}, "tpot", "prompts between decodes"),
]


@pytest.mark.parametrize(("text", "slo", "rate", "options", "limit", "cause"), CASES)
def test_the_cause(text: str, slo: str, rate: float, options: dict[str, object], limit: str, cause: str) -> None:
    found = bound(text, slo, CHAT.at_rate(rate), **options)
    assert (found.limit, found.cause) == (limit, cause)
    assert found.cause in CAUSES
    assert found.rate == pytest.approx(rate)
    assert found.to_dict()["parts"] == found.parts


def test_prompts_that_come_together_are_bursts_when_spacing_them_would_do() -> None:
    load = CHAT.at_rate(120.0)
    assert bound("1P3D", "ttft<=0.2s, tpot<=20ms", load, bursts=True).cause == "bursts"


def test_a_queue_before_decode_is_a_want_of_room() -> None:
    found = bound("2P + 1D,batch=1", "ttft<=100s, tpot<=100s", CHAT.at_rate(40.0))
    assert (found.limit, found.metric, found.cause) == ("queue", "slot", "decode room")
    assert max(found.parts, key=found.parts.get) == "decode_wait"


def test_requests_that_nothing_holds_are_refused() -> None:
    long = Workload("long", np.arange(4.0), np.full(4, 600_000), np.full(4, 10))
    found = bound("1B,chunked=512", "ttft<=1s", long)
    assert (found.cause, found.broken, found.parts) == ("refused", 1.0, {})


@pytest.mark.parametrize("transfer", ["pull", "push"])
@pytest.mark.parametrize(
    ("metric", "slo"),
    [("ttft", "ttft<=1ms"), ("tpot", "tpot<=1ms"), ("tbt", "tbt<=1ms"), ("e2e", "e2e<=1ms")],
)
@pytest.mark.parametrize("text", ["1P1D", "2B,prefill-first", "1B,chunked=256,memory=0.235", "1B,multiplexed"])
def test_the_parts_add_up_to_what_is_limited(text: str, metric: str, slo: str, transfer: str) -> None:
    deployment = twofold.deployment(text, model="llama-3-8b", device="H100", transfer=transfer)
    load = CHAT.at_rate(30.0)
    result = twofold.simulate(load, deployment, slo)
    found = bound(text, slo, load, transfer=transfer)
    values = {"ttft": result.ttft_s, "tpot": result.tpot_s, "tbt": result.max_tbt_s, "e2e": result.e2e_s}[metric]
    beyond = values[values > 1e-3]
    assert found.broken == pytest.approx(len(beyond) / len(load))
    assert sum(found.parts.values()) == pytest.approx(beyond.mean())
    assert min(found.parts.values()) >= 0.0
