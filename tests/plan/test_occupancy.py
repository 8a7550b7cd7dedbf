import numpy as np
import pytest

import twofold
from twofold.cost.roofline import step_seconds
from twofold.plan.occupancy import Occupancy, occupancies
from twofold.spec import catalog
from twofold.spec.synthetic import Synthetic
from twofold.spec.workload import Workload

COUNT, PROMPT, GAP_S = 40, 2048, 0.1
KV_BYTES = 131_072


def steady(output: int) -> Workload:
    return Workload("steady", np.arange(COUNT) * GAP_S, np.full(COUNT, PROMPT), np.full(COUNT, output))


def of(text: str, workload: Workload, **options: object) -> tuple[Occupancy, ...]:
    deployment = twofold.deployment(text, model="llama-3-8b", device="H100", **options)
    return occupancies(twofold.simulate(workload, deployment))


def prefill_seconds() -> float:
    return step_seconds(catalog.model("llama-3-8b"), catalog.device("H100"), prompts=[(0, PROMPT)])


@pytest.mark.parametrize("output", [2, 400])
def test_a_prefill_replica_is_busy_for_its_prompts_whatever_is_decoded_after_them(output: int) -> None:
    prefill, _ = of("1P1D", steady(output))
    service = prefill_seconds()
    assert prefill.busy == pytest.approx(COUNT * service / ((COUNT - 1) * GAP_S + service))


def test_the_groups_are_in_order_with_their_sizes() -> None:
    found = of("2P,tp2 + 1D", steady(8))
    assert [(group.group, group.role, group.replicas, group.devices) for group in found] == [
        ("2P,tp2", "prefill", 2, 4),
        ("1D", "decode", 1, 1),
    ]


def test_a_port_carries_the_kv_of_all_prompts() -> None:
    link = catalog.link("RoCE-100")
    prefill, decode = of("1P1D", steady(2), link="RoCE-100")
    size = PROMPT * KV_BYTES / link.effective
    window = (COUNT - 1) * GAP_S + prefill_seconds() + size + link.latency_s
    assert prefill.link == decode.link == pytest.approx(COUNT * size / window, rel=1e-3)
    assert of("1P1D,tp2", steady(2), link="RoCE-100")[0].link == pytest.approx(prefill.link / 2, rel=0.05)
    replica = of("1P1D,tp2", steady(2), link="RoCE-100", link_per="replica")
    assert replica[0].link == pytest.approx(prefill.link, rel=0.05)


def test_a_trunk_counts_where_it_is_fuller_than_the_ports() -> None:
    ports = of("2P2D", steady(2), link="RoCE-100")
    trunk = of("2P2D", steady(2), link="RoCE-100", fabric_bytes_per_s=catalog.link("RoCE-100").effective)
    assert trunk[0].link == pytest.approx(2 * ports[0].link, rel=0.05)


def test_without_transfers_the_link_is_idle() -> None:
    assert [group.link for group in of("2B", steady(20))] == [0.0]


@pytest.mark.parametrize("text", ["2B", "1P1D", "1B,multiplexed", "1B,pp2", "1B,chunked=512,memory=0.23"])
def test_shares_are_shares(text: str) -> None:
    workload = Synthetic(rate=30, requests=100, seed=5).workload()
    for group in of(text, workload):
        assert 0.0 < group.busy <= 1.0
        assert 0.0 <= group.kv_mean <= group.kv_peak <= 1.0
        assert 0.0 <= group.link <= 1.0
        assert group.to_dict()["busy"] == group.busy
