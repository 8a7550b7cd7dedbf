import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import twofold
from twofold.errors import SpecError
from twofold.plan.multiplexing import Way, coexistence
from twofold.spec.workload import Workload

DECODES, CONTEXT, PROMPT, ARRIVES_S = 32, 2048, 8192, 3.0


def beside(model: str = "qwen3-8b", device: str = "H100", **options: object) -> dict[str, Way]:
    found = coexistence(model, device, DECODES, CONTEXT, PROMPT, **options)
    return {way.deployment: way for way in found.rows}


def simulated(policy: str) -> twofold.Result:
    """All decodes at about the context when the long prompt arrives, on an otherwise idle replica."""
    count = DECODES + 1
    arrivals, prompts, outputs = np.zeros(count), np.full(count, CONTEXT - 200), np.full(count, 600)
    arrivals[-1], prompts[-1] = ARRIVES_S, PROMPT
    workload = Workload("beside", arrivals, prompts.astype(np.int32), outputs.astype(np.int32))
    return twofold.simulate(workload, twofold.deployment(f"1B,{policy}", model="qwen3-8b", device="H100"))


@pytest.mark.parametrize(
    "policy", ["prefill-first", "chunked=544", "chunked=2080", "multiplexed=80:52", "multiplexed=104:28"]
)
def test_the_simulator_agrees(policy: str) -> None:
    way, alone, run = beside()[policy], beside()["decode-only"], simulated(policy)
    assert run.max_tbt_s[:-1].min() == pytest.approx(way.longest_itl_s, rel=0.01)
    boundaries = alone.itl_s + (0.0 if policy == "prefill-first" else way.longest_itl_s)
    assert way.prefill_s <= run.ttft_s[-1] <= way.prefill_s + boundaries


def test_more_units_for_decode_shorten_its_gaps_and_lengthen_the_prefill() -> None:
    divided = [way for name, way in beside().items() if name.startswith("multiplexed")]
    assert len(divided) == 6
    for more, less in zip(divided[1:], divided[:-1], strict=True):
        assert more.itl_s <= less.itl_s
        assert more.prefill_s > less.prefill_s
    assert [way.deployment for way in divided if way.chosen] == ["multiplexed=80:52"]


@settings(max_examples=20, deadline=None)
@given(
    decodes=st.integers(1, 128),
    context=st.integers(1, 8192),
    prompt=st.integers(1, 20_000),
    chunk=st.integers(16, 4096),
    limit=st.floats(1e-3, 1.0),
)
def test_what_always_holds(decodes: int, context: int, prompt: int, chunk: int, limit: float) -> None:
    found = coexistence("llama-3-8b", "A100", decodes, context, prompt, chunks=[chunk])
    alone, first, chunked, *divided = found.rows
    assert alone.itl_s == alone.longest_itl_s < first.longest_itl_s
    assert chunked.tokens == -(-prompt // chunk)
    assert chunked.itl_s * chunked.tokens == pytest.approx(chunked.prefill_s)
    assert first.itl_s == pytest.approx(first.prefill_s + alone.itl_s)
    for way in divided:
        assert way.tokens * way.itl_s == pytest.approx(way.prefill_s)
        assert way.prefill_s >= first.prefill_s
    assert all(way.longest_itl_s >= max(way.itl_s, alone.itl_s) * (1 - 1e-12) for way in found.rows)
    best = found.soonest(limit)
    kept = [way for way in found.rows[1:] if way.longest_itl_s <= limit]
    assert (best is None) == (not kept)
    assert best is None or best.prefill_s == min(way.prefill_s for way in kept)


def test_a_chunk_as_long_as_the_prompt_is_one_step() -> None:
    whole = beside(chunks=[PROMPT])[f"chunked={PROMPT + DECODES}"]
    assert whole.itl_s == whole.longest_itl_s == whole.prefill_s


def test_a_saturation_that_comes_later_slows_decode_alone() -> None:
    early, late = beside(saturation=0.3)["multiplexed=80:52"], beside(saturation=0.9)["multiplexed=80:52"]
    assert early.itl_s < late.itl_s
    assert early.prefill_s == late.prefill_s
    assert beside(saturation=None)["multiplexed=80:52"].prefill_s < early.prefill_s


def test_tensor_parallelism_shortens_everything() -> None:
    one, two = beside(), beside(tp=2)
    assert all(two[name].itl_s < one[name].itl_s for name in one)


def test_a_device_that_cannot_be_divided_says_so() -> None:
    found = coexistence("llama-3-8b", "MI300X", DECODES, CONTEXT, PROMPT)
    assert "compute_capability" in found.undivided
    assert [way.deployment for way in found.rows] == ["decode-only", "prefill-first", "chunked=2080", "chunked=544"]
    assert json.loads(json.dumps(found.to_dict()))["rows"][0]["prefill_s"] is None


@pytest.mark.parametrize(
    ("numbers", "field"), [((0, 1, 1), "decodes"), ((1, 0, 1), "context"), ((1, 1, 0), "prompt_tokens")]
)
def test_what_is_not_positive_is_refused(numbers: tuple[int, int, int], field: str) -> None:
    with pytest.raises(SpecError, match=field):
        coexistence("llama-3-8b", "H100", *numbers)
    with pytest.raises(SpecError, match=r"chunks\[1\]"):
        coexistence("llama-3-8b", "H100", 1, 1, 1, chunks=[1, 0])
