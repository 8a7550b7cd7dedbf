"""Between the devices of a replica: all-reduce by the numbers that are summed."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twofold.cost.silicon.kernels import MILLI, Kernels, columns, read_table
from twofold.errors import SpecError

Floats = NDArray[np.float64]
GRAPH = "_graph"
GRAPH_TOKENS = 512
"""Steps of so many tokens at most are replayed as one graph (the engines' default), where an all-reduce is faster."""


def all_reduce(kernels: Kernels, tp: int, tokens: Floats, hidden: int) -> Floats:
    """float64[tokens]: seconds of one all-reduce of ``hidden`` numbers a token over ``tp`` devices."""
    if tp == 1:
        return np.zeros_like(tokens)
    rows = _own(kernels, tp)
    if rows.is_empty():
        rows = _nccl(kernels, tp)
    graph = rows.filter(pl.col("kernel_source").str.ends_with(GRAPH))
    others = rows.filter(~pl.col("kernel_source").str.ends_with(GRAPH))
    outside = _at(others if len(others) > 1 else graph, tokens * hidden)
    return np.where(tokens <= GRAPH_TOKENS, _at(graph, tokens * hidden), outside) if len(graph) > 1 else outside


def _own(kernels: Kernels, tp: int) -> pl.DataFrame:
    """The engine's own kernels: (kernel_source, message_size, latency)."""
    file = kernels.find("comm", "custom_allreduce")
    if file is None:
        return pl.DataFrame(schema={"kernel_source": pl.String, "message_size": pl.Int64, "latency": pl.Float64})
    named = columns(file, read_table(file), "num_gpus", "kernel_source", "message_size", "latency")
    return named.filter(named["num_gpus"] == tp).drop("num_gpus")


def _nccl(kernels: Kernels, tp: int) -> pl.DataFrame:
    file = kernels.find("comm", "nccl", "nccl")
    if file is not None:
        names = ("num_gpus", "op_name", "nccl_dtype", "kernel_source", "message_size", "latency")
        table = columns(file, read_table(file), *names)
        chosen = (pl.col("num_gpus") == tp) & (pl.col("op_name") == "all_reduce") & (pl.col("nccl_dtype") == "half")
        rows = table.filter(chosen).select("kernel_source", "message_size", "latency")
        if len(rows) > 1:
            return rows
    raise SpecError("tp", tp, f"accepted: degrees whose all-reduce was measured for {kernels}")


def _at(rows: pl.DataFrame, sizes: Floats) -> Floats:
    """Straight between the sizes that were measured; beyond the largest in proportion."""
    known = rows.group_by("message_size").agg(pl.col("latency").median()).sort("message_size")
    places, seconds = known["message_size"].to_numpy(), MILLI * known["latency"].to_numpy()
    return np.asarray(np.interp(sizes, places, seconds) * np.maximum(1.0, sizes / places[-1]))
