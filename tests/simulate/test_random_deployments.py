"""Everything at once: any deployment, router, transfer, scarce memory, shared prefixes and faults."""

from typing import Any

import numpy as np
import pytest
from harness import SCARCE, assert_complete, assert_same_run, deploy, draw, run
from hypothesis import given, settings
from hypothesis import strategies as st

COLOCATED = (
    "2B,chunked=25ms",
    "1B,prefill-first",
    "1B,mixed",
    "1B,multiplexed=slo",
    "2B,order=short-first",
    "2B,tp2,pp2",
)
DISAGGREGATED = ("1P1D", "2P1D", "2P2D", "1P2D,tp2", "2P,pp2 + 1D", "2P,chunked=256 + 2D")
ROUTERS = ("round-robin", "random", "least-requests", "least-tokens", "power-of-two", "kv-aware")


def random_run(seed: int) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A deployment, the options of its run and those of its workload."""
    rng = np.random.default_rng(seed)
    text = str(rng.choice(COLOCATED + DISAGGREGATED))
    options: dict[str, Any] = {"router": str(rng.choice(ROUTERS))}
    if text in DISAGGREGATED:
        options |= {
            "layerwise": bool(rng.integers(2)) and "pp2" not in text,
            "transfer": str(rng.choice(["pull", "push"])),
            "mixed_pool": bool(rng.random() < 0.3),
            "mixed_prompt_tokens": 3000,
            "decode_choice": str(rng.choice(["at-prefill-end", "at-arrival"])),
        }
    if "tp2" not in text and "pp2" not in text and rng.random() < 0.6:
        text = " + ".join(f"{term},{SCARCE}" for term in text.split(" + "))
    if rng.random() < 0.4:
        text = " + ".join(f"{term},batch={rng.choice([1, 3, 8])}" for term in text.split(" + "))
    lengths: dict[str, Any] = {
        "requests": int(rng.integers(20, 90)),
        "rate": float(rng.choice([5, 30, 100])),
        "seed": seed,
    }
    if rng.random() < 0.4:
        lengths["shared_prefix"] = {"pool": 4, "tokens": 256}
    replicas = sum(group.count for group in deploy(text).groups)
    span = lengths["requests"] / lengths["rate"] + 1
    options["faults"] = [random_fault(rng, replicas, span) for _ in range(int(rng.integers(0, 4)))]
    return text, options, lengths


def random_fault(rng: np.random.Generator, replicas: int, span_s: float) -> dict[str, Any]:
    return {
        "kind": str(rng.choice(["replica", "link"])),
        "target": int(rng.integers(replicas)),
        "at_s": float(rng.uniform(0, span_s)),
        "for_s": float(rng.exponential(2) + 0.01),
        "kv": str(rng.choice(["lost", "kept"])),
    }


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_whatever_is_asked_nothing_is_lost_and_running_ahead_changes_nothing(seed):
    text, options, lengths = random_run(seed)
    workload = draw(**lengths)
    result = run(text, workload, **options)
    assert_complete(result)
    assert_same_run(result, run(text, workload, step_by_step=True, **options))
    ports, count = result._sim.ports, len(result._sim.stations)
    assert ports.sent[:count].sum() == pytest.approx(ports.sent[count : 2 * count].sum(), rel=1e-12)
