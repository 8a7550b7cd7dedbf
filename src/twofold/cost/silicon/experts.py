"""Routed experts: seconds of one layer by tokens, of the very shape that was measured."""

from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twofold.cost.silicon.dtypes import EXPERTS
from twofold.cost.silicon.kernels import MILLI, Kernels, columns, read_table
from twofold.cost.silicon.products import at
from twofold.errors import SpecError
from twofold.spec.model import Model

Floats = NDArray[np.float64]
ROUTINGS = ("power_law_1.2", "power_law_1.01", "balanced")
"""How tokens were spread over the experts, the most uneven first: real routing is not even."""
SHAPE = {
    "hidden_size": "hidden",
    "inter_size": "moe_ffn",
    "topk": "experts_per_token",
    "num_experts": "experts",
}


WIDE = "wideep_{}_moe"
"""SGLang's experts behind an all-to-all: other kernels than those that all tokens reach."""


class Spread(NamedTuple):
    """Where experts are: each cut over ``tp`` devices, or whole on one of ``ep``; ``dtype`` of their weights."""

    dtype: str
    tp: int
    ep: int

    def __str__(self) -> str:
        return f"{self.dtype} at " + (f"ep {self.ep}" if self.ep > 1 else f"tp {self.tp}")


def routed(kernels: Kernels, model: Model, spread: Spread, tokens: Floats) -> Floats:
    """float64[tokens]: seconds of the routed experts of one layer, of ``tokens`` of all devices."""
    kernels.file("moe", "moe")
    return _of_tables(kernels, kernels.files("moe", "moe"), model, spread, tokens)


def exchanged(kernels: Kernels, model: Model, spread: Spread, tokens: Floats, fast: NDArray[np.bool_]) -> Floats:
    """The same behind an all-to-all, ``fast`` bool[tokens] where it is the low-latency one."""
    phases = [kernels.files("moe", WIDE.format(phase)) for phase in ("generation", "context")]
    if not all(phases):
        return routed(kernels, model, spread, tokens)
    low, normal = (_of_tables(kernels, files, model, spread, tokens) for files in phases)
    return np.where(fast, low, normal)


def _of_tables(kernels: Kernels, files: list[Path], model: Model, spread: Spread, tokens: Floats) -> Floats:
    """Of the newest table that has these experts."""
    tables = [_read(file) for file in files]
    shape = [pl.col(theirs) == getattr(model, ours) for theirs, ours in SHAPE.items()]
    place = (pl.col("moe_tp_size") == spread.tp, pl.col("moe_ep_size") == spread.ep)
    for table in tables:
        here = table.filter(*shape, *place)
        for dtype, routing in product(_names(spread.dtype), ROUTINGS):
            chosen = here.filter(pl.col("moe_dtype") == dtype, pl.col("distribution") == routing)
            found = chosen.group_by("num_tokens").agg(pl.col("latency").min()).sort("num_tokens")
            if len(found) > 1:
                places = found["num_tokens"].to_numpy().astype(np.float64)
                return at(places, MILLI * found["latency"].to_numpy(), tokens)
    asked = f"{model.experts_per_token} of {model.experts} of {model.hidden} x {model.moe_ffn} in {spread}"
    raise SpecError("experts", asked, f"accepted with {kernels}: {_known(pl.concat(tables), model, spread.dtype)}")


def _read(file: Path) -> pl.DataFrame:
    names = (*SHAPE, "moe_dtype", "moe_tp_size", "moe_ep_size", "distribution", "num_tokens", "latency")
    return columns(file, read_table(file), *names)


def _names(dtype: str) -> tuple[str, ...]:
    return EXPERTS.get(dtype, (dtype,))


def _known(table: pl.DataFrame, model: Model, dtype: str) -> str:
    """What there is instead, in words: other places of these experts, other dtypes, other experts."""
    same = table.filter(*(pl.col(theirs) == getattr(model, ours) for theirs, ours in SHAPE.items()))
    rows = same.filter(pl.col("moe_dtype").is_in(_names(dtype)))
    cut = sorted({*rows.filter(pl.col("moe_ep_size") == 1)["moe_tp_size"]})
    spread = sorted({*rows.filter(pl.col("moe_tp_size") == 1, pl.col("moe_ep_size") > 1)["moe_ep_size"]})
    said = [f"{name} {', '.join(map(str, known))}" for name, known in (("tp", cut), ("ep", spread)) if known]
    if said:
        return "; ".join(said)
    if len(same):
        return ", ".join(ours for ours, theirs in EXPERTS.items() if set(theirs) & set(same["moe_dtype"]))
    shapes = sorted(table.select("topk", "num_experts", "hidden_size", "inter_size").unique().rows())
    return ", ".join(f"{each} of {count} of {hidden} x {ffn}" for each, count, hidden, ffn in shapes)
