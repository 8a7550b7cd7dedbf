"""Routed experts: seconds of one layer by tokens, of the very shape that was measured."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twofold.cost.silicon.kernels import MILLI, Kernels, columns, read_table
from twofold.errors import SpecError
from twofold.spec.model import Model

Floats = NDArray[np.float64]
DTYPES = {
    "bf16": ("bfloat16",),
    "fp16": ("bfloat16",),
    "fp8": ("fp8", "fp8_block"),
    "fp4": ("nvfp4",),
    "mxfp4": ("w4a16_mxfp4", "w4a8_mxfp4_mxfp8"),
    "int4": ("int4_wo",),
}
"""Our dtypes by the tables' names of them, the first that was measured."""
ROUTINGS = ("power_law_1.2", "power_law_1.01", "balanced")
"""How tokens were spread over the experts, the most uneven first: real routing is not even."""
SHAPE = {
    "hidden_size": "hidden",
    "inter_size": "moe_ffn",
    "topk": "experts_per_token",
    "num_experts": "experts",
}


def routed(kernels: Kernels, model: Model, tp: int, tokens: Floats) -> Floats:
    """float64[tokens]: seconds of the routed experts of one layer, each cut over ``tp`` devices."""
    file = kernels.file("moe", "moe")
    names = (*SHAPE, "moe_dtype", "moe_tp_size", "moe_ep_size", "distribution", "num_tokens", "latency")
    table = columns(file, read_table(file), *names)
    shape = {theirs: getattr(model, ours) for theirs, ours in SHAPE.items()}
    rows = table.filter(*(pl.col(name) == value for name, value in shape.items()))
    rows = rows.filter(pl.col("moe_ep_size") == 1)
    dtype = model.expert_dtype or model.weight_dtype
    for theirs in DTYPES.get(dtype, (dtype,)):
        for routing in ROUTINGS:
            chosen = (pl.col("moe_dtype") == theirs) & (pl.col("distribution") == routing)
            found = rows.filter(chosen, pl.col("moe_tp_size") == tp).sort("num_tokens")
            if len(found) > 1:
                return _at(found, tokens)
    asked = f"{model.experts} of {model.hidden} x {model.moe_ffn} in {dtype} at tp {tp}"
    known = sorted({*rows.filter(pl.col("moe_dtype").is_in(DTYPES.get(dtype, (dtype,))))["moe_tp_size"]})
    accepted = f"tp {', '.join(map(str, known))}" if known else "a shape and a dtype that were measured"
    raise SpecError("experts", asked, f"accepted with {kernels}: {accepted}")


def _at(rows: pl.DataFrame, tokens: Floats) -> Floats:
    """Straight between the numbers of tokens; beyond the largest in proportion."""
    places, seconds = rows["num_tokens"].to_numpy(), MILLI * rows["latency"].to_numpy()
    return np.asarray(np.interp(tokens, places, seconds) * np.maximum(1.0, tokens / places[-1]))
