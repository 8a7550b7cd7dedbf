"""No request is lost, whatever dies and whenever it comes back."""

import numpy as np
import pytest
from harness import SCARCE, assert_complete, assert_same_run, draw, gaps, listed, run
from hypothesis import given, settings
from hypothesis import strategies as st

REPLICAS = 3
KINDS = (
    "3B,chunked=256",
    f"3B,{SCARCE}",
    "3B,prefill-first",
    "3B,multiplexed",
    "3B,pp2",
    "2P1D",
    "1P2D",
    f"1P2D,{SCARCE}",
    "1P,chunked=256 + 2D",
    "1B,order=short-first + 1P1D",
)
FAULT = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(("replica", "link")),
        "target": st.integers(0, REPLICAS - 1),
        "at_s": st.floats(0.0, 2.0),
        "for_s": st.floats(0.001, 3.0),
        "kv": st.sampled_from(("lost", "kept")),
    }
)
OPTIONS = st.fixed_dictionaries(
    {
        "transfer": st.sampled_from(("pull", "push")),
        "layerwise": st.booleans(),
        "mixed_pool": st.booleans(),
        "decode_choice": st.sampled_from(("at-prefill-end", "at-arrival")),
        "router": st.sampled_from(("round-robin", "random", "least-tokens", "kv-aware")),
    }
)


@pytest.mark.parametrize("text", KINDS)
@given(faults=st.lists(FAULT, min_size=1, max_size=5), options=OPTIONS, seed=st.integers(0, 999), shared=st.booleans())
@settings(deadline=None, max_examples=12)
def test_all_complete_when_everything_returns(text, faults, options, seed, shared):
    if "P" not in text:
        options = {"router": options["router"]}
    elif options["mixed_pool"]:
        options = options | {"mixed_prompt_tokens": 800}
    prefix = {"shared_prefix": {"pool": 3, "tokens": 256}} if shared else {}
    workload = draw(40, 40, seed, **prefix)
    result = run(text, workload, faults=faults, **options)
    assert_complete(result)
    assert len(gaps(result)) == int((workload.output_tokens[result.completed] - 1).sum())
    assert_same_run(result, run(text, workload, faults=faults, step_by_step=True, **options))


@given(faults=st.lists(FAULT, min_size=1, max_size=4), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=15)
def test_every_request_has_a_known_end_when_some_never_return(faults, seed):
    faults = [fault | {"for_s": None} if i % 2 == 0 else fault for i, fault in enumerate(faults)]
    summary = run("1P2D", draw(40, 40, seed), faults=faults).summary()
    assert summary["completed"] + summary["rejected"] + summary["unfinished"] == 40
    assert summary["duration_s"] < 60.0


def test_a_lone_replica_that_dies_for_good_leaves_the_rest_unfinished():
    result = run("1B", listed((0.0, 100, 10), (2.0, 100, 10)), faults=[{"target": 0, "at_s": 1.0}])
    assert result.completed.tolist() == [True, False]
    assert result.summary()["unfinished"] == 1
    assert result.requests["status"].to_list() == ["completed", "unfinished"]


def test_kept_memory_only_delays_and_lost_memory_is_prefilled_again():
    workload = listed((0.0, 4000, 200))
    whole = run("1B", workload)
    at, pause = 0.5 * whole.e2e_s[0], 2.0
    kept = run("1B", workload, faults=[{"target": 0, "at_s": at, "for_s": pause, "kv": "kept"}])
    lost = run("1B", workload, faults=[{"target": 0, "at_s": at, "for_s": pause}])
    step = np.diff(gaps(whole)).max() + gaps(whole).max()
    assert whole.e2e_s[0] + pause <= kept.e2e_s[0] <= whole.e2e_s[0] + pause + step
    assert lost.e2e_s[0] > kept.e2e_s[0] + 0.05
    assert lost.summary()["faults"] == {"count": 1, "reprefilled": 1, "resumed": 0}
    assert lost.summary()["prefilled_tokens"] > 8000
    assert kept.summary()["prefilled_tokens"] == 4000


def test_kv_held_by_the_prefill_replica_is_resumed_when_its_decode_replica_dies():
    workload = listed((0.0, 4000, 50))
    slow = {"link": "25GbE"}
    sent = run("1P1D", workload, **slow)
    halfway = 0.5 * (sent.ttft_s[0] + sent.kv_arrived_s[0])
    again = run("1P1D", workload, faults=[{"target": 1, "at_s": halfway, "for_s": 1.0}], **slow)
    assert_complete(again)
    assert again.summary()["faults"]["resumed"] == 1
    assert again.summary()["prefilled_tokens"] == 4000
    assert again.kv_arrived_s[0] == pytest.approx(halfway + 1.0 + sent.kv_arrived_s[0] - sent.ttft_s[0])


def test_memory_is_lost_too_when_the_replica_is_down_already():
    workload = listed((0.0, 4000, 200))
    kept = {"target": 0, "at_s": 0.5, "for_s": 2.0, "kv": "kept"}
    lost = {"target": 0, "at_s": 1.0, "for_s": 0.5, "kv": "lost"}
    result = run("1B", workload, faults=[kept, lost])
    assert_complete(result)
    assert result.summary()["faults"]["reprefilled"] == 1


def test_a_dead_replica_draws_no_power():
    workload = listed((0.0, 100, 10), (100.0, 100, 10))
    whole, dead = run("2B", workload), run("2B", workload, faults=[{"target": 1, "at_s": 1.0}])
    assert whole.energy_j - dead.energy_j == pytest.approx(70.0 * 99.0, rel=0.02)
    assert dead.replicas["down_s"].to_list() == [0.0, pytest.approx(dead.duration_s - 1.0)]


def test_faults_at_a_rate_follow_the_seed():
    fault = {"rate_per_hour": 3600.0, "mean_repair_s": 0.2}
    workload = draw(80, 10, 1)
    one, same, other = (run("2B", workload, faults=[fault], seed=seed) for seed in (1, 1, 2))
    assert one.summary()["faults"]["count"] > 3
    assert one.e2e_s.tolist() == same.e2e_s.tolist()
    assert one.e2e_s.tolist() != other.e2e_s.tolist()
    assert_complete(one)
