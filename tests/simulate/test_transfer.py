"""KV on its way: closed forms of one flow, max-min shares of several."""

import numpy as np
import pytest
from harness import DEVICE, KV_BYTES, MODEL, assert_complete, draw, listed, run
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.cost.roofline import step_seconds
from twofold.spec import catalog
from twofold.spec.link import Link

PROMPT, LAYERS = 4096, 32
BYTES = PROMPT * KV_BYTES


def prefill_seconds(prompt: int = PROMPT) -> float:
    return step_seconds(catalog.model(MODEL), catalog.device(DEVICE), prompts=[(0, prompt)])


def link(transfer_s: float, latency_s: float = 0.0) -> Link:
    """A link that carries the KV of one prompt in so many seconds."""
    return Link(name="test", source="test", bandwidth=BYTES / transfer_s, efficiency=1.0, latency_s=latency_s)


def test_a_serial_transfer_follows_the_prompt():
    result = run("1P1D", listed((0.0, PROMPT, 5)), link=link(0.2, latency_s=0.003))
    assert result.ttft_s[0] == pytest.approx(prefill_seconds(), abs=1e-12)
    assert result.kv_arrived_s[0] == pytest.approx(prefill_seconds() + 0.203, abs=1e-9)
    assert result.requests["transfer_s"][0] == pytest.approx(0.203, abs=1e-9)


@given(ratio=st.floats(0.05, 20.0))
@settings(deadline=None, max_examples=15)
def test_one_layerwise_flow_has_its_closed_form(ratio):
    whole = prefill_seconds()
    layer_s = ratio * whole / LAYERS
    result = run("1P1D", listed((0.0, PROMPT, 5)), link=link(LAYERS * layer_s), layerwise=True)
    slow_link = layer_s > whole / LAYERS
    expected = whole / LAYERS + LAYERS * layer_s if slow_link else whole + layer_s
    assert result.kv_arrived_s[0] == pytest.approx(expected, rel=1e-9)


def test_two_flows_into_one_replica_get_half_each():
    result = run("2P1D", listed((0.0, PROMPT, 5), (0.0, PROMPT, 5)), link=link(0.2))
    assert result.kv_arrived_s.tolist() == pytest.approx([prefill_seconds() + 0.4] * 2, abs=1e-9)


def test_a_later_flow_slows_an_earlier_one():
    result = run("2P1D", listed((0.0, PROMPT, 5), (0.1, PROMPT, 5)), link=link(0.2))
    done = result.kv_arrived_s + result.arrival_s - prefill_seconds()
    assert done.tolist() == pytest.approx([0.3, 0.4], abs=1e-9)


def test_flows_between_other_replicas_do_not_meet_unless_there_is_a_trunk():
    workload = listed((0.0, PROMPT, 5), (0.0, PROMPT, 5))
    free = run("2P2D", workload, link=link(0.2))
    trunk = run("2P2D", workload, link=link(0.2), fabric_bytes_per_s=BYTES / 0.2)
    assert free.kv_arrived_s.tolist() == pytest.approx([prefill_seconds() + 0.2] * 2, abs=1e-9)
    assert trunk.kv_arrived_s.tolist() == pytest.approx([prefill_seconds() + 0.4] * 2, abs=1e-9)


def test_what_one_flow_cannot_use_goes_to_the_others():
    """Prefill replicas of 1 and 2 ports: their flows share the 2 ports of the decode replica."""
    workload = listed((0.0, PROMPT, 5), (0.0, PROMPT, 5), (0.0, PROMPT, 5))
    result = run("3P + 1D,tp4", workload, link=link(0.2), fabric_bytes_per_s=2 * BYTES / 0.2)
    assert result.kv_arrived_s.tolist() == pytest.approx([prefill_seconds() + 0.3] * 3, abs=1e-9)


def test_one_port_a_replica_instead_of_one_a_device():
    workload = listed((0.0, PROMPT, 5))
    ports = [run("1P,tp2 + 1D,tp2", workload, link=link(0.2), link_per=per) for per in ("device", "replica")]
    moved = [float(result.kv_arrived_s[0] - result.ttft_s[0]) for result in ports]
    assert moved == pytest.approx([0.1, 0.2], abs=1e-9)


def test_a_dead_link_pauses_a_flow_or_starts_it_again():
    workload = listed((0.0, PROMPT, 5))
    fault = {"kind": "link", "target": 1, "at_s": prefill_seconds() + 0.15, "for_s": 0.5}
    kept = run("1P1D", workload, link=link(0.2), faults=[fault | {"kv": "kept"}])
    lost = run("1P1D", workload, link=link(0.2), faults=[fault | {"kv": "lost"}])
    assert kept.kv_arrived_s[0] == pytest.approx(prefill_seconds() + 0.7, abs=1e-9)
    assert lost.kv_arrived_s[0] == pytest.approx(prefill_seconds() + 0.85, abs=1e-9)


@pytest.mark.parametrize("layerwise", [False, True])
@pytest.mark.parametrize("text", ["2P3D", "2P,chunked=256 + 1D"])
@given(seed=st.integers(0, 999), seconds=st.sampled_from((0.001, 0.05, 0.5)))
@settings(deadline=None, max_examples=5)
def test_bytes_are_conserved(text, layerwise, seed, seconds):
    workload = draw(40, 20, seed)
    result = run(text, workload, link=link(seconds), layerwise=layerwise, fabric_bytes_per_s=3 * BYTES / seconds)
    assert_complete(result)
    moved = workload.prompt_tokens[workload.output_tokens > 1].sum() * KV_BYTES
    ports, replicas = result._sim.ports.sent, len(result._sim.stations)
    for sent in (ports[:replicas].sum(), ports[replicas : 2 * replicas].sum(), ports[-1]):
        assert sent == pytest.approx(moved, rel=1e-9)
    assert result.summary()["transfers"]["bytes"] == pytest.approx(moved, rel=1e-12)


@pytest.mark.parametrize("layerwise", [False, True])
def test_no_flow_beats_its_link(layerwise):
    result = run("2P1D", draw(60, 30, 4), link=link(0.3), layerwise=layerwise)
    alone = result.workload.prompt_tokens * KV_BYTES / (BYTES / 0.3)
    moved = result.workload.output_tokens > 1
    start = result._life.start - result.arrival_s if layerwise else result.ttft_s
    assert ((result.kv_arrived_s - start)[moved] >= alone[moved] - 1e-9).all()


def test_push_grants_room_before_the_prompt_and_pull_after_it():
    rows = [(0.0, 4000, 400), (0.0, 4000, 2)]
    pull = run("1P,prefill-tokens=4000 + 1D,memory=0.21", listed(*rows))
    push = run("1P,prefill-tokens=4000 + 1D,memory=0.21", listed(*rows), transfer="push")
    assert pull.ttft_s[1] < pull.e2e_s[0] < pull.kv_arrived_s[1]
    assert push.ttft_s[1] > push.e2e_s[0]


@pytest.mark.parametrize("transfer", ["pull", "push"])
@pytest.mark.parametrize("layerwise", [False, True])
def test_a_prompt_that_gives_the_last_token_is_not_sent(layerwise, transfer):
    """It has no need of a decode replica, not even of one that could hold it."""
    workload = listed((0.0, PROMPT, 1), (0.0, PROMPT, 1), (0.0, 2500, 2))
    result = run("1P + 1D,memory=0.205", workload, link=link(50.0), layerwise=layerwise, transfer=transfer)
    assert_complete(result)
    assert result.summary()["transfers"]["count"] == 1
    assert result._sim.ports.sent.max() == pytest.approx(2500 * KV_BYTES)
    assert np.isnan(result.kv_arrived_s).tolist() == [True, True, False]
    assert np.max(result.ttft_s) < 1.0


def test_a_mixed_pool_lends_a_decode_replica_to_a_burst_of_prompts():
    workload = listed(*((0.0, 4096, 20) for _ in range(12)))
    own = run("1P2D", workload)
    mixed = run("1P2D", workload, mixed_pool=True, mixed_prompt_tokens=8192)
    assert_complete(mixed)
    assert mixed.summary()["borrowed"] > 0
    assert own.summary()["borrowed"] == 0
    assert np.max(mixed.ttft_s) < np.max(own.ttft_s)
