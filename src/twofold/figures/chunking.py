"""Lecture 7, sections 2.3 and 2.5, exercise 2: what cutting a prompt into chunks changes and costs."""

from collections.abc import Iterator

import numpy as np

from twofold.figures.llama import prompt_seconds
from twofold.figures.row import Comparison, number, text, within
from twofold.figures.tiny_llm import Generation, TinyLlm, generate

PROMPT, CHUNK, NEW_TOKENS, SEED = 192, 16, 64, 7
LONG_PROMPTS = (2048, 4096, 8192)


def prefilled_in(chunk: int) -> Generation:
    """The seeded prompt run through the small decoder in chunks of ``chunk`` tokens."""
    model = TinyLlm(SEED)
    prompt = np.random.Generator(np.random.PCG64(SEED)).integers(0, model.shape.vocab, PROMPT)
    return generate(model, prompt, [chunk] * (PROMPT // chunk), NEW_TOKENS)


def lossless() -> Iterator[Comparison]:
    """Run whole and in chunks: the tokens and the KV reads."""
    whole, chunked = prefilled_in(PROMPT), prefilled_in(CHUNK)
    apart = float(np.abs(whole.prompt_logits - chunked.prompt_logits).max())
    same = "same tokens" if whole.tokens == chunked.tokens else "other tokens"
    inputs = f"NumPy decoder, seed {SEED}, {NEW_TOKENS} greedy tokens; largest logit difference {apart:.0e}"
    what = f"{PROMPT} tokens prefilled in chunks of {CHUNK} and at once"
    yield text("tokens", what, "same tokens", same, inputs)
    ratio = chunked.prefill_read / whole.prefill_read
    inputs = f"counted: {chunked.prefill_read} and {whole.prefill_read} KV tokens a layer"
    yield number("kv-reads", f"KV reads in chunks of {CHUNK} against at once", 6.5, ratio, "x", 1, inputs)


def overhead() -> Iterator[Comparison]:
    """Time of a prompt in chunks against at once, on the lecture's GPU."""
    inputs = f"Llama-3-8B on H100, prompts of {', '.join(map(str, LONG_PROMPTS))} (lengths not given)"
    for chunk, low, high in ((512, 3, 4), (256, 8, 9)):
        ratios = [prompt_seconds(prompt, chunk) / prompt_seconds(prompt, prompt) for prompt in LONG_PROMPTS]
        ours = (100 * (min(ratios) - 1), 100 * (max(ratios) - 1))
        yield within(str(chunk), f"extra time of chunks of {chunk}", (low, high), ours, " %", 1, inputs)


def exercise_2() -> Iterator[Comparison]:
    """KV tokens read by a prompt in chunks: by chunk, in all, as a ratio."""
    starts = range(0, PROMPT, CHUNK)
    by_chunk = [start + CHUNK for start in starts]
    fifth = by_chunk[4]
    yield number("a", f"KV tokens that chunk k = 5 of {CHUNK} reads, k c", 5 * CHUNK, fifth, "tokens", 0)
    read = prefilled_in(CHUNK).prefill_read
    closed = CHUNK * (PROMPT // CHUNK) * (PROMPT // CHUNK + 1) / 2
    yield number("b", "read in all, c (N/c) (N/c + 1) / 2, counted", closed, read, "tokens", 0)
    yield number("c", "against at once, N / 2c + 1/2, counted", 6.5, read / PROMPT, "x", 1)
