"""Lecture 7, sections 1.2 and 2.2, exercise 1: what a step costs when a prompt rides on decodes."""

from collections.abc import Iterator

from twofold.figures.llama import llama_step
from twofold.figures.row import Comparison, near, within

BATCHES = (8, 16, 32, 64, 128)
DECODES, CONTEXT = 32, 1024


def interference() -> Iterator[Comparison]:
    """A step with a prompt against the decodes alone."""
    inputs = f"decode batches {', '.join(map(str, BATCHES))} (not given), context 512"
    for tokens, low, high in ((1024, 2.6, 3.5), (4096, 10, 14)):
        slower = [llama_step([(0, tokens)], [512] * n) / llama_step((), [512] * n) for n in BATCHES]
        what = f"step with {tokens} prompt tokens against decodes alone"
        yield within(str(tokens), what, (low, high), (min(slower), max(slower)), "x", 1, inputs)


def riding(tokens: int, decodes: int = DECODES) -> float:
    """Seconds of a step of decodes at context 1024 with ``tokens`` prompt tokens riding along."""
    return llama_step([(0, tokens)] if tokens else (), [CONTEXT] * decodes)


def free_compute() -> Iterator[Comparison]:
    """Prompt tokens that ride on 32, and on 128, decodes."""
    for tokens, milliseconds in ((0, 7.70), (256, 7.72), (512, 11.64)):
        what = f"32 decodes at context 1024 with {tokens} prompt tokens"
        yield near(str(tokens), what, milliseconds, 1e3 * riding(tokens), "ms")
    marginal = (riding(256) - riding(0)) / 256
    yield near("riding-token", "marginal time of a riding token, of 256", 52, 1e9 * marginal, "ns", 0)
    alone = llama_step([(0, 512)]) / 512
    inputs = "in a prompt of 512 (length not given)"
    yield near("token-alone", "time of a prompt token alone", 21, 1e6 * alone, "us", 0, inputs)
    slower = riding(512, 128) / riding(0, 128)
    inputs = "context 1024, as above"
    yield near("batch-128", "128 decodes: step with 512 tokens against none", 1.10, slower, "x", 2, inputs)


def exercise_1() -> Iterator[Comparison]:
    """A 4096-token prompt in 16 riding chunks, alone and in one step."""
    chunked = sum(
        llama_step([(start, 256)], [CONTEXT] * DECODES, ending=start + 256 == 4096) for start in range(0, 4096, 256)
    )
    inputs = "each chunk reads the KV of the earlier ones; the chapter multiplies 7.7 by 16"
    yield near("chunked", "4096 tokens in 16 steps beside 32 decodes", 124, 1e3 * chunked, "ms", 0, inputs)
    yield near("alone", "4096 tokens alone", 89, 1e3 * llama_step([(0, 4096)]), "ms", 0)
    yield near("one-step", "4096 tokens and 32 decodes in one step", 90, 1e3 * riding(4096), "ms", 0)
    slower = 100 * (riding(512) / riding(0) - 1)
    yield near("knee", "slow-down by 512 riding tokens", 51, slower, "%", 0)
