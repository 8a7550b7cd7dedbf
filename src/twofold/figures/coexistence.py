"""PD multiplexing chapter: one long prompt beside 32 decodes, under four ways of sharing one H100.

The chapter's own constants: 85 % of the bandwidth, 50 % of the peak FLOP rate, no fixed time a step, the
output matrix applied to every prompt token. Model and device come from the catalog, the division from the
scheduler.
"""

from collections.abc import Iterator

import numpy as np

from twofold.cost.step import chunk_pairs
from twofold.figures.multiplexing import choose_on, device_groups
from twofold.figures.row import Comparison, text
from twofold.spec import catalog
from twofold.spec.model import dtype_bytes

DECODES, CONTEXT, PROMPT = 32, 2048, 8192
SATURATION_UNITS = (44, 66, 88)
INPUTS = "Qwen3-8B bf16, H100, bandwidth x 0.85, peak x 0.50 (all given by the chapter)"


class PaperDevice:
    """The chapter's two-constant model of Qwen3-8B on one H100. Times in seconds."""

    def __init__(self) -> None:
        model, device = catalog.model("qwen3-8b"), catalog.device("H100")
        self.units = device.units
        self.multiplied = model.layer_params + model.lm_head_params
        self.pair_flops = model.attention_flops_per_pair
        self.flop_rate = 0.5 * device.flops("bf16")
        weights = self.multiplied * dtype_bytes(model.weight_dtype)
        self.decode_s = (weights + DECODES * CONTEXT * model.kv_bytes_per_token) / (0.85 * device.bandwidth)

    def decode(self, units: int, saturation: int) -> float:
        """A decode step on ``units``, of which ``saturation`` would reach the full bandwidth."""
        return self.decode_s / min(1.0, units / saturation)

    def prefill(self, tokens: int, start: int = 0, units: int | None = None) -> float:
        """``tokens`` prompt tokens after ``start`` earlier ones, on ``units`` (default: all)."""
        flops = 2 * self.multiplied * tokens + self.pair_flops * chunk_pairs(start, tokens)
        return flops / (self.flop_rate * (units or self.units) / self.units)

    def mixed(self, chunk: int, start: int) -> float:
        """A step with all decodes and one chunk."""
        decodes = 2 * self.multiplied * DECODES / self.flop_rate
        return max(self.prefill(chunk, start) + decodes, self.decode_s)


def comparison() -> Iterator[Comparison]:
    """ITL, prefill time and tokens a decode writes meanwhile, one row a way of sharing."""
    paper = PaperDevice()
    alone = paper.prefill(PROMPT)
    yield text("decode-only", "32 decodes alone: ITL", "9 ms", _ms(paper.decode_s), INPUTS)
    first = f"{_ms(alone + paper.decode_s)}, {_ms(alone)}"
    yield text("prefill-first", "longest ITL, prefill time", "299 ms, 291 ms", first, INPUTS)
    for chunk, printed in ((2048, "74 ms x 4, 295 ms"), (512, "19 ms x 16, 306 ms")):
        steps = [paper.mixed(chunk, start) for start in range(0, PROMPT, chunk)]
        ours = f"{_ms(float(np.mean(steps)))} x {len(steps)}, {_ms(sum(steps))}"
        what = f"chunks of {chunk}: ITL x steps, prefill time"
        yield text(f"chunked-{chunk}", what, printed, ours, INPUTS)
    yield from _divided(paper)


def _divided(paper: PaperDevice) -> Iterator[Comparison]:
    groups = device_groups("H100")
    prefill_units, decode_units = groups.divisions[choose_on(groups, DECODES)].tolist()
    seconds = paper.prefill(PROMPT, units=prefill_units)
    printed = ("9 ms, 480 ms, 55 tokens", "11 ms, 480 ms, 43 tokens", "15 ms, 480 ms, 33 tokens")
    for saturation, chapter in zip(SATURATION_UNITS, printed, strict=True):
        itl = paper.decode(decode_units, saturation)
        what = f"split {prefill_units}/{decode_units}, S_SAT {saturation}: ITL, prefill time, tokens meanwhile"
        ours = f"{_ms(itl)}, {_ms(seconds)}, {seconds / itl:.0f} tokens"
        yield text(f"split-{saturation}", what, chapter, ours, INPUTS)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms"
