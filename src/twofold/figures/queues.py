"""Lecture 7, section 3.2, exercises 4 and 6: DistServe's queueing formulas and whole replicas."""

import math
from collections.abc import Iterator

from twofold.figures.row import Comparison, near, number, text
from twofold.plan.queueing import (
    crossing_rate,
    devices_needed,
    mean_ttft,
    mean_ttft_pipeline,
    mean_ttft_tensor,
    simulated_mean_ttft,
)

PREFILL_S = 0.1
SEED = 0
SAMPLING = 0.003


def parallelism() -> Iterator[Comparison]:
    """Two devices as a pipeline or with tensor parallelism, D = 0.1 s."""
    formula = 1e3 * mean_ttft_pipeline(8.0, PREFILL_S)
    yield number("formula", "pipeline at 8 req/s, formula", 116.67, formula, "ms")
    simulated = 1e3 * simulated_mean_ttft(8.0, PREFILL_S, stages=2, requests=200_000, seed=SEED)
    inputs = f"seed {SEED}; accepted within the sampling error, {SAMPLING:.1%}"
    what = "pipeline at 8 req/s, Lindley recursion, 200,000 requests"
    yield near("lindley", what, 116.62, simulated, "ms", 2, inputs, SAMPLING)
    for speedup, low, high in ((1.5, 8, 11), (1.7, 11, 13), (1.9, 13, math.inf)):
        yield _crossing(speedup, low, high)


def _crossing(speedup: float, low: float, high: float) -> Comparison:
    rate = crossing_rate(PREFILL_S, speedup)
    printed = f"between {low} and {high} req/s" if high < math.inf else f"none by {low} req/s"
    what = f"rate at which the pipeline overtakes tensor parallelism, K = {speedup}"
    return Comparison(f"crossing-{speedup}", what, printed, f"{rate:.2f} req/s", None, low < rate < high)


def exercise_4() -> Iterator[Comparison]:
    """Mean TTFT of three layouts, D = 0.2 s."""
    yield number("a", "one device, 3 req/s", 0.35, mean_ttft(3, 0.2), "s")
    yield number("b", "2 stages, 3 req/s", 0.221, mean_ttft_pipeline(3, 0.2), "s", 3)
    yield number("c", "tensor parallel, K = 1.6, 3 req/s", 0.163, mean_ttft_tensor(3, 0.2, 1.6), "s", 3)
    yield text("d-one", "one device, 6 req/s", "unstable", _stable(mean_ttft(6, 0.2)))
    yield number("d-pipeline", "2 stages, 6 req/s", 0.275, mean_ttft_pipeline(6, 0.2), "s", 3)
    yield number("d-tensor", "tensor parallel, 6 req/s", 0.3125, mean_ttft_tensor(6, 0.2, 1.6), "s", 4)


def _stable(seconds: float) -> str:
    return f"{seconds:.3f} s" if seconds < math.inf else "unstable"


def exercise_6() -> Iterator[Comparison]:
    """Devices of whole replicas: prefill 4 for 7.7 req/s, decode 8 for 86, colocated 8 for 11.4."""
    for rate, printed in ((5, "disaggregation needs more"), (30, "about even")):
        apart, together = _gpus(rate)
        right = apart > together if rate == 5 else apart == together
        what = f"GPUs for {rate} req/s, disaggregated and colocated"
        yield Comparison(str(rate), what, printed, f"{apart} and {together}", None, right)
    apart, together = _gpus(200)
    what = f"GPUs saved by disaggregation at 200 req/s, {apart} of {together}"
    yield number("200", what, 11, 100 * (1 - apart / together), "%", 0)
    apart_each, together_each = 1 / (4 / 7.7 + 8 / 86), 11.4 / 8
    yield number("ideal-apart", "goodput per GPU, disaggregated in any ratio", 1.63, apart_each, "req/s")
    yield number("ideal-together", "goodput per GPU, colocated", 1.43, together_each, "req/s")
    gain, unrounded = round(apart_each, 2) / round(together_each, 2) - 1, apart_each / together_each - 1
    inputs = f"of the rounded goodputs, as the chapter divides them; unrounded {unrounded:.1%}"
    yield number("ideal-gain", "ideal gain of disaggregation", 14, 100 * gain, "%", 0, inputs)


def _gpus(rate: float) -> tuple[int, int]:
    return devices_needed(rate, (7.7, 4), (86.0, 8)), devices_needed(rate, (11.4, 8))
