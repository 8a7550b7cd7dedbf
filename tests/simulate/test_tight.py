"""Batches of few requests, tiers below scarce memory, orders and reservations, all of them with faults."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from harness import PHASES, assert_complete, assert_same_run, draw, listed, run
from hypothesis import given, settings
from hypothesis import strategies as st

DEPLOYMENTS = (
    "2B,chunked=64,prefill-every=3",
    "1B,prefill-first,decode-every=3",
    "2B,mixed",
    "1B,request-level",
    "1B,multiplexed",
    "1P,chunked=128 + 2D",
    "2P,lm=1024 + 1D",
    "1B + 1P1D",
)
LIMITS = (
    ("", ",memory=0.21", ",memory=0.207"),
    ("", ",batch=1", ",batch=3"),
    ("", ",host=100MB", ",host=1GB", ",disk=2GB"),
    ("", ",reserve"),
    ("", ",order=priority", ",order=short-first"),
    ("", ",blocks=1", ",blocks=64"),
)
COUNTS = ("steps", "preemptions", "reused_tokens", "prefilled_tokens", "split_switches")


def random_limits(seed: int) -> tuple[str, dict[str, Any], dict[str, Any]]:
    rng = np.random.default_rng(seed)
    base, limits = str(rng.choice(DEPLOYMENTS)), "".join(str(rng.choice(choice)) for choice in LIMITS)
    options: dict[str, Any] = {"router": str(rng.choice(["random", "least-tokens", "kv-aware"]))}
    if "P" in base:
        options |= {"layerwise": bool(rng.integers(2)), "transfer": str(rng.choice(["pull", "push"]))}
        options |= {"mixed_pool": bool(rng.integers(2)), "mixed_prompt_tokens": 2000, "link": "25GbE"}
    replicas = 3 if "P" in base else int(base[0])
    options["faults"] = [
        {
            "kind": str(rng.choice(["replica", "link"])),
            "target": int(rng.integers(replicas)),
            "at_s": float(rng.uniform(0, 3)),
            "for_s": float(rng.exponential(1) + 0.01),
            "kv": str(rng.choice(["lost", "kept"])),
        }
        for _ in range(int(rng.integers(0, 3)))
    ]
    lengths: dict[str, Any] = {"requests": int(rng.integers(10, 70)), "rate": float(rng.choice([5, 30, 100]))}
    if rng.random() < 0.6:
        lengths["shared_prefix"] = {"pool": int(rng.choice([2, 8])), "tokens": 256}
    return " + ".join(term + limits for term in base.split(" + ")), options, lengths | {"seed": seed}


@given(seed=st.integers(0, 2**31))
@settings(deadline=None, max_examples=120)
def test_nothing_is_lost_and_running_ahead_changes_nothing(seed):
    text, options, lengths = random_limits(seed)
    workload = draw(**lengths)
    workload = replace(workload, priority=np.random.default_rng(seed).integers(0, 3, len(workload)))
    fast, slow = run(text, workload, **options), run(text, workload, step_by_step=True, **options)
    assert_complete(fast)
    assert_same_run(fast, slow)
    one, other = fast.summary(), slow.summary()
    assert [one[count] for count in COUNTS] == [other[count] for count in COUNTS]
    assert one["energy_j"] == pytest.approx(other["energy_j"], rel=1e-9)
    assert one["utilisation"] == pytest.approx(other["utilisation"], rel=1e-9)


def test_a_lent_decode_replica_keeps_to_its_batch():
    """Its own prompts and the requests whose KV is on its way count together."""
    workload = draw(61, 100, 659)
    options = {"transfer": "push", "layerwise": True, "mixed_pool": True, "mixed_prompt_tokens": 2000, "link": "25GbE"}
    result = run("1P2D,batch=4,reserve", workload, timeline=True, step_by_step=True, **options)
    assert result.summary()["borrowed"] > 0
    assert result._sim.log.decodes.max() <= 4
    assert_complete(result)


def test_a_started_prompt_that_has_lost_its_room_is_granted_new_room_first():
    """Push: else prompts that have room wait for the memory of prompts that have none, and those for their room."""
    text = "1P,chunked=128,memory=0.207,batch=3,reserve + 2D,memory=0.207,batch=3,reserve"
    options = {"transfer": "push", "layerwise": True, "decode_choice": "at-arrival", "link": "25GbE"}
    faults = [{"target": 1, "at_s": at, "for_s": 0.2} for at in (0.5, 1.0, 1.5, 2.0, 2.5)]
    for seed in range(12):
        assert_complete(run(text, draw(60, 30, seed), router="power-of-two", faults=faults, **options))


def test_many_flows_may_end_at_once():
    workload = listed(*[(0.0, 1024, 2)] * 150)
    result = run("150P150D,batch=1", workload, timeline=True)
    assert_complete(result)
    log = result._sim.log[: result._sim.control[0].logs]
    assert (log.kind == 1).sum() == 150
    assert np.ptp(result.kv_arrived_s) == 0.0
    assert all(np.ptp(result._life[phase]) < 1e-9 for phase in PHASES)
