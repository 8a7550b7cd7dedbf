import json

import numpy as np
import pytest

import twofold
from twofold.cost.roofline import Roofline, step_seconds
from twofold.errors import SpecError
from twofold.plan.explain import Explanation, explain
from twofold.plan.goodput import PRECISION, goodput
from twofold.spec import catalog
from twofold.spec.slo import Slo
from twofold.spec.synthetic import Synthetic
from twofold.spec.workload import Workload

PROMPT = 2048
CHAT = Synthetic(rate=10, requests=150, seed=3, output="lognormal:100:0.8").workload()
SLO = Slo.parse("ttft<=0.3s, tpot<=20ms @90%")


def seconds(flop_efficiency: float = 0.7) -> float:
    model, device = catalog.model("llama-3-8b"), catalog.device("H100")
    return step_seconds(model, device, prompts=[(0, PROMPT)], roofline=Roofline(flop_efficiency=flop_efficiency))


def queue() -> tuple[Workload, twofold.deployment, Slo]:
    """A D/D/1 queue: prompts at constant gaps, one at a time, and a limit just above the service time."""
    workload = Workload("steady", np.arange(300) * 1.0, np.full(300, PROMPT), np.ones(300))
    text = f"1B,prefill-first,prefill-tokens={PROMPT}"
    deployment = twofold.deployment(text, model="llama-3-8b", device="H100")
    return workload, deployment, Slo(ttft_s=1.5 * seconds(), attainment=0.99)


@pytest.fixture(scope="module")
def single() -> Explanation:
    workload, deployment, slo = queue()
    return explain(workload, deployment, slo, goodput(workload, deployment, slo).rate)


@pytest.fixture(scope="module")
def pair() -> Explanation:
    deployment = twofold.deployment("1P2D", model="llama-3-8b", device="H100")
    return explain(CHAT, deployment, SLO, goodput(CHAT, deployment, SLO).rate)


def test_one_more_server_doubles_what_a_queue_carries(single: Explanation) -> None:
    (more,) = single.one_more
    assert more.what == f"1B,prefill-first,prefill-tokens={PROMPT}"
    assert more.rate == pytest.approx(2 / seconds(), rel=1.5 * PRECISION)
    assert more.per_device == more.gained == more.rate - single.goodput_req_s


def test_only_compute_speeds_up_a_queue_of_prompts(single: Explanation) -> None:
    gained = {gain.what: gain.gained for gain in single.resources}
    assert set(gained) == {"compute", "bandwidth", "memory", "batch"}
    faster = 1 / seconds(0.7 * 1.25)
    assert single.goodput_req_s + gained.pop("compute") == pytest.approx(faster, rel=1.5 * PRECISION)
    assert set(gained.values()) == {0.0}
    assert all(gain.per_device is None for gain in single.resources)


def test_a_full_queue_is_saturated(single: Explanation) -> None:
    assert (single.binding.limit, single.binding.cause) == ("ttft", "saturation")
    assert single.binding.rate > single.goodput_req_s
    assert single.groups[0].busy > 0.95


def test_what_changes_in_a_queue(single: Explanation) -> None:
    tighter, looser, doubled = single.changes
    assert (tighter.limit, tighter.carried_by) == (None, 1)
    assert (looser.limit, looser.carried_by) == (None, 1)
    assert (doubled.limit, doubled.carried_by) == ("ttft", 2)
    assert doubled.attainment < 0.1
    assert doubled.rate == 2 * single.goodput_req_s


def test_an_slo_that_no_number_of_copies_keeps() -> None:
    workload, deployment, _ = queue()
    close = Slo(ttft_s=1.2 * seconds(), attainment=0.99)
    found = explain(workload, deployment, close, goodput(workload, deployment, close).rate)
    assert (found.changes[0].limit, found.changes[0].carried_by) == ("ttft", None)


def test_the_side_that_binds_is_the_side_that_gains(pair: Explanation) -> None:
    prefill, decode = pair.one_more
    assert (prefill.what, decode.what) == ("1P", "1D")
    assert pair.binding.limit == "ttft"
    assert prefill.gained > 0.3 * pair.goodput_req_s
    assert abs(decode.gained) <= 1.01 * PRECISION * pair.goodput_req_s


def test_every_number_is_that_of_a_run(pair: Explanation) -> None:
    run = twofold.simulate(CHAT.at_rate(pair.goodput_req_s), pair.deployment, SLO)
    assert pair.attainment == run.summary()["attainment"] >= SLO.attainment
    assert pair.breakdown_s == run.breakdown()
    tight = twofold.simulate(CHAT.at_rate(pair.goodput_req_s), pair.deployment, SLO.scaled(0.75))
    assert pair.changes[0].attainment == tight.summary()["attainment"]
    more = twofold.deployment("2P2D", model="llama-3-8b", device="H100")
    assert pair.one_more[0].rate == goodput(CHAT, more, SLO, guess=pair.goodput_req_s).rate
    assert {gain.what for gain in pair.resources} == {"compute", "bandwidth", "memory", "batch", "link"}


def test_a_faster_link_gains_where_the_link_binds() -> None:
    deployment = twofold.deployment("2P2D", model="llama-3-8b", device="H100", link="25GbE")
    found = explain(CHAT, deployment, SLO, goodput(CHAT, deployment, SLO).rate)
    gained = {gain.what: gain.gained for gain in found.resources}
    assert found.binding.cause == "KV link"
    assert max(gained, key=gained.get) == "link"


def test_it_is_json(pair: Explanation) -> None:
    written = json.loads(json.dumps(pair.to_dict()))
    assert written["deployment"] == "1P2D"
    assert written["goodput_req_s"] == pair.goodput_req_s
    assert written["binding"]["cause"] == pair.binding.cause
    assert [change["slo"] for change in written["changes"]] == [str(change.slo) for change in pair.changes]


def test_a_gain_that_so_few_requests_cannot_measure_is_infinite() -> None:
    workload, deployment, _ = queue()
    few, slo = workload.head(12), Slo(ttft_s=8 * seconds(), attainment=0.99)
    found = explain(few, deployment, slo, goodput(few, deployment, slo).rate)
    assert found.one_more[0].rate == found.one_more[0].gained == float("inf")


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf")])
def test_there_is_nothing_to_explain_at_no_rate(rate: float) -> None:
    workload, deployment, slo = queue()
    with pytest.raises(SpecError, match="goodput"):
        explain(workload, deployment, slo, rate)


def test_a_rate_far_below_the_goodput_is_refused() -> None:
    workload, deployment, slo = queue()
    with pytest.raises(SpecError, match="far more"):
        explain(workload, deployment, slo, 0.1 / seconds())
