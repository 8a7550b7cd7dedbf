"""Chunked prefill on a decoder that is really run."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.figures.tiny_llm import Shape, TinyLlm, generate

MODEL = TinyLlm(seed=3)
PROMPT = np.random.Generator(np.random.PCG64(5)).integers(0, MODEL.shape.vocab, 40)


@settings(max_examples=20, deadline=None)
@given(cuts=st.sets(st.integers(1, len(PROMPT) - 1)))
def test_any_cut_of_the_prompt_leaves_the_model_unchanged(cuts: set[int]) -> None:
    edges = [0, *sorted(cuts), len(PROMPT)]
    chunks = [end - start for start, end in pairwise(edges)]
    whole = generate(MODEL, PROMPT, [len(PROMPT)], 5)
    chunked = generate(MODEL, PROMPT, chunks, 5)
    assert chunked.tokens == whole.tokens
    assert chunked.prompt_logits == pytest.approx(whole.prompt_logits, abs=1e-9)
    assert chunked.prefill_read == sum(edges[1:])


@pytest.mark.parametrize("position", [0, 17, 39])
def test_every_prompt_token_reaches_the_logits(position: int) -> None:
    changed = PROMPT.copy()
    changed[position] = (changed[position] + 1) % MODEL.shape.vocab
    one = generate(MODEL, PROMPT, [10] * 4, 1).prompt_logits
    other = generate(MODEL, changed, [10] * 4, 1).prompt_logits
    assert np.abs(one - other).max() > 1e-6


def test_order_of_the_prompt_matters() -> None:
    swapped = PROMPT.copy()
    swapped[[3, 4]] = swapped[[4, 3]]
    one = generate(MODEL, PROMPT, [40], 1).prompt_logits
    assert np.abs(one - generate(MODEL, swapped, [40], 1).prompt_logits).max() > 1e-6


def test_decoding_step_by_step_equals_prefilling_the_same_tokens() -> None:
    written = generate(MODEL, PROMPT, [40], 6).tokens
    cache = MODEL.new_cache()
    logits = MODEL.forward(np.concatenate([PROMPT, written[:5]]), cache)
    assert int(np.argmax(logits)) == written[5]
    assert cache.keys[0].shape == (45, MODEL.shape.kv_heads, MODEL.shape.head_dim)


def test_the_seed_is_the_model() -> None:
    assert np.array_equal(TinyLlm(1).head, TinyLlm(1).head)
    assert not np.array_equal(TinyLlm(1).head, TinyLlm(2).head)
    assert Shape(heads=8, head_dim=4).hidden == 32
