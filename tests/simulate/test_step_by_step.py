"""Runs of decode steps at once give what single steps give."""

import pytest
from harness import SCARCE, TINY, assert_complete, assert_same_run, draw, listed, run
from hypothesis import given, settings
from hypothesis import strategies as st

COLOCATED = (
    "1B,chunked=256",
    "2B,chunked=25ms",
    "1B,chunked=64,prefill-every=3",
    "1B,prefill-first",
    "1B,prefill-first,decode-every=4",
    "1B,mixed",
    "1B,request-level",
    "1B,multiplexed",
    "1B,multiplexed=80:52,contention-decode=1.2",
    "1B,multiplexed=slo",
    "1B,order=short-first",
    "1B,reserve",
    "2B,pp2",
)
DISAGGREGATED = ("1P1D", "2P2D", "1P,chunked=256 + 2D", "2P,pp2 + 1D", "1P,tp2 + 1D,reserve")


@pytest.mark.parametrize("text", COLOCATED)
@given(seed=st.integers(0, 999), rate=st.sampled_from((5, 30, 100)), memory=st.sampled_from(("", SCARCE)))
@settings(deadline=None, max_examples=4)
def test_colocated(text, seed, rate, memory):
    text = f"{text},{memory}" if memory and "pp2" not in text else text
    workload = draw(50, rate, seed)
    fast = run(text, workload)
    assert_complete(fast)
    assert_same_run(fast, run(text, workload, step_by_step=True))


@pytest.mark.parametrize("text", DISAGGREGATED)
@given(
    seed=st.integers(0, 999),
    transfer=st.sampled_from(("pull", "push")),
    layerwise=st.booleans(),
    mixed_pool=st.booleans(),
    choice=st.sampled_from(("at-prefill-end", "at-arrival")),
    scarce=st.booleans(),
)
@settings(deadline=None, max_examples=8)
def test_disaggregated(text, seed, transfer, layerwise, mixed_pool, choice, scarce):
    options = {"transfer": transfer, "layerwise": layerwise and "pp2" not in text, "mixed_pool": mixed_pool}
    if scarce and "tp2" not in text and "pp2" not in text:
        text = f"{text},{SCARCE}"
    workload = draw(50, 40, seed)
    fast = run(text, workload, decode_choice=choice, mixed_prompt_tokens=1000, **options)
    slow = run(text, workload, decode_choice=choice, mixed_prompt_tokens=1000, step_by_step=True, **options)
    assert_complete(fast)
    assert_same_run(fast, slow)


@pytest.mark.parametrize("text", ["1B", "1B,prefill-first", "1B,multiplexed", "1P1D"])
@given(seed=st.integers(0, 999))
@settings(deadline=None, max_examples=4)
def test_prefix_reuse(text, seed):
    workload = draw(60, 40, seed, shared_prefix={"pool": 4, "tokens": 512})
    fast = run(f"{text},{SCARCE}", workload)
    assert fast.summary()["reused_tokens"] > 0
    assert_complete(fast)
    assert_same_run(fast, run(f"{text},{SCARCE}", workload, step_by_step=True))


def test_growth_with_preemption():
    workload = listed(*((0.01 * i, 300, 300) for i in range(8)))
    for policy in ("chunked", "prefill-first", "mixed", "request-level", "multiplexed"):
        fast = run(f"1B,{policy},{TINY}", workload)
        assert fast.summary()["preemptions"] > 0
        assert_complete(fast)
        assert_same_run(fast, run(f"1B,{policy},{TINY}", workload, step_by_step=True))


def test_priorities():
    urgent = [i % 3 for i in range(40)]
    rows = [(0.02 * i, 400 + 37 * i % 900, 20 + i) for i in range(40)]
    workload = listed(*rows, priority=urgent)
    for text in ("1B,order=priority", f"1B,order=priority,{TINY}"):
        fast = run(text, workload)
        assert_complete(fast)
        assert_same_run(fast, run(text, workload, step_by_step=True))
