"""PD multiplexing chapter: one long prompt beside 32 decodes, under four ways of sharing one H100.

The chapter's own constants: 85 % of the bandwidth, 50 % of the peak FLOP rate, no fixed time a step, the
output matrix applied to every prompt token. Model and device come from the catalog, the rows from ``plan``.
"""

from collections.abc import Iterator

from twofold.cost.step import chunk_pairs
from twofold.figures.row import Comparison, text
from twofold.plan.multiplexing import CHUNKS, Way, device_groups, ways
from twofold.spec import catalog
from twofold.spec.model import dtype_bytes

DECODES, CONTEXT, PROMPT = 32, 2048, 8192
SATURATION_UNITS = (44, 66, 88)
INPUTS = "Qwen3-8B bf16, H100, bandwidth x 0.85, peak x 0.50 (all given by the chapter)"


class PaperDevice:
    """The chapter's two-constant model of Qwen3-8B on one H100. Times in seconds.

    ``saturation`` units would reach the full bandwidth.
    """

    def __init__(self, saturation: int) -> None:
        model, device = catalog.model("qwen3-8b"), catalog.device("H100")
        self.units, self.saturation = device.units, saturation
        self.multiplied = model.layer_params + model.lm_head_params
        self.pair_flops = model.attention_flops_per_pair
        self.flop_rate = 0.5 * device.flops("bf16")
        weights = self.multiplied * dtype_bytes(model.weight_dtype)
        self.decode_s = (weights + DECODES * CONTEXT * model.kv_bytes_per_token) / (0.85 * device.bandwidth)

    def decode(self, units: int | None = None) -> float:
        """A decode step on ``units`` (default: all)."""
        return self.decode_s / min(1.0, (units or self.units) / self.saturation)

    def prefill(self, tokens: int, units: int | None = None, start: int = 0) -> float:
        """``tokens`` prompt tokens after ``start`` earlier ones, on ``units`` (default: all)."""
        flops = 2 * self.multiplied * tokens + self.pair_flops * chunk_pairs(start, tokens)
        return flops / (self.flop_rate * (units or self.units) / self.units)

    def mixed(self, tokens: int, chunk: int) -> list[float]:
        """The steps of a prompt in chunks with all decodes."""
        decodes = 2 * self.multiplied * DECODES / self.flop_rate
        starts = range(0, tokens, chunk)
        return [max(self.prefill(chunk, start=start) + decodes, self.decode_s) for start in starts]


def comparison() -> Iterator[Comparison]:
    """ITL, prefill time and tokens a decode writes meanwhile, one row a way of sharing."""
    rows = _rows(SATURATION_UNITS[0])
    yield text("decode-only", "32 decodes alone: ITL", "9 ms", _ms(rows["decode-only"].itl_s), INPUTS)
    way = rows["prefill-first"]
    ours = f"{_ms(way.longest_itl_s)}, {_ms(way.prefill_s)}"
    yield text("prefill-first", "longest ITL, prefill time", "299 ms, 291 ms", ours, INPUTS)
    for chunk, printed in zip(CHUNKS, ("74 ms x 4, 295 ms", "19 ms x 16, 306 ms"), strict=True):
        way = rows[f"chunked={chunk + DECODES}"]
        ours = f"{_ms(way.itl_s)} x {way.tokens:.0f}, {_ms(way.prefill_s)}"
        what = f"chunks of {chunk}: ITL x steps, prefill time"
        yield text(f"chunked-{chunk}", what, printed, ours, INPUTS)
    yield from _divided()


def _rows(saturation: int) -> dict[str, Way]:
    found = ways(PaperDevice(saturation), DECODES, PROMPT, CHUNKS, device_groups("H100"))
    return {way.deployment: way for way in found}


def _divided() -> Iterator[Comparison]:
    printed = ("9 ms, 480 ms, 55 tokens", "11 ms, 480 ms, 43 tokens", "15 ms, 480 ms, 33 tokens")
    for saturation, chapter in zip(SATURATION_UNITS, printed, strict=True):
        way = next(way for way in _rows(saturation).values() if way.chosen)
        split = way.deployment.partition("=")[2].replace(":", "/")
        what = f"split {split}, S_SAT {saturation}: ITL, prefill time, tokens meanwhile"
        ours = f"{_ms(way.itl_s)}, {_ms(way.prefill_s)}, {way.tokens:.0f} tokens"
        yield text(f"split-{saturation}", what, chapter, ours, INPUTS)


def _ms(seconds: float | None) -> str:
    return "none" if seconds is None else f"{seconds * 1e3:.0f} ms"
