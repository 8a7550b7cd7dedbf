"""Attention: what was measured of whole prompts and of decodes, for the heads that one device has."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from twofold.cost.grids import Sample
from twofold.cost.silicon.dtypes import KV_DTYPES
from twofold.cost.silicon.kernels import MILLI, columns, read_table
from twofold.errors import SpecError

SHAPE = ("num_heads", "num_key_value_heads", "head_dim", "attn_dtype", "kv_cache_dtype")
WINDOW = "window_size"
"""0, or no such column, is attention to all of the context."""
DOUBLINGS = 3
"""So often the longest prompt, of tokens that only several prompts together were measured with."""
Measurement = tuple[int, int, float]
"""(batch, length or context, seconds) of one layer."""


class Heads(NamedTuple):
    """The heads of one device: of queries, of keys and values, their width, and the dtype of the KV cache."""

    queries: int
    keys: int
    width: int
    kv_dtype: str


def read_decodes(file: Path, heads: Heads) -> list[Sample]:
    """Seconds of one layer at so many decodes with so much context each."""
    rows = _of_heads(file, heads, "batch_size", "step")
    return [Sample(float(count), float(before + 1), seconds) for count, before, seconds in rows]


def read_prompts(file: Path, heads: Heads) -> list[Sample]:
    """Seconds of one layer at so many prompt tokens with so many keys each."""
    return with_chunks(file, _of_heads(file, heads, "batch_size", "isl"))


def with_chunks(file: Path, rows: Sequence[Measurement]) -> list[Sample]:
    """The prompts of ``rows``, and their chunks.

    Whole prompts, alone or several of one length, were measured; a chunk after others takes the seconds a query-key
    pair of the whole prompt that it ends, and at least what its tokens take by themselves.
    """
    alone = {float(length): seconds for count, length, seconds in rows if count == 1}
    if len(alone) < 2:
        raise SpecError(file.name, len(alone), "accepted: prompts of two lengths or more, each alone")
    longest = max(alone)
    sizes = {*alone, *(longest * 2.0**doubling for doubling in range(1, DOUBLINGS + 1))}
    samples = [Sample(n * length, length / 2.0, s) for n, length, s in rows if n * length in sizes]
    for length, seconds in alone.items():
        pair_s = seconds / (length * length / 2.0)
        for tokens in (tokens for tokens in alone if tokens < length):
            keys = length - tokens / 2.0
            samples.append(Sample(tokens, keys, max(alone[tokens], pair_s * tokens * keys)))
    return samples


def between_heads(table: pl.DataFrame, queries: int, first: str, second: str) -> list[Measurement] | None:
    """(first, second, seconds) straight between the numbers of query heads of ``table``; None outside of them."""
    counts = sorted(set(table["num_heads"]))
    below = max((count for count in counts if count <= queries), default=None)
    above = min((count for count in counts if count >= queries), default=None)
    if below is None or above is None:
        return None
    low, high = ({(a, b): MILLI * ms for a, b, ms in _rows(table, count, first, second)} for count in (below, above))
    part = (queries - below) / (above - below) if above > below else 0.0
    return [(*place, (1.0 - part) * low[place] + part * high[place]) for place in sorted(low.keys() & high.keys())]


def known_heads(table: pl.DataFrame) -> str:
    """The numbers of query heads that were measured, in words."""
    return ", ".join(map(str, sorted(set(table["num_heads"])))) or "none"


def _of_heads(file: Path, heads: Heads, first: str, second: str) -> list[Measurement]:
    table = _measured(file, heads, first, second)
    rows = between_heads(table, heads.queries, first, second)
    if rows is None:
        asked = f"{heads.queries} of queries, {heads.keys} of keys, {heads.width} wide, {heads.kv_dtype}"
        accepted = f"accepted with {heads.keys} of keys: {known_heads(table)} of queries"
        raise SpecError("heads of a device", asked, accepted)
    return rows


def _rows(table: pl.DataFrame, count: int, first: str, second: str) -> list[tuple[int, int, float]]:
    """Each place once, by the fastest of the engine's kernels that were measured there."""
    here = table.filter(table["num_heads"] == count).group_by(first, second)
    return here.agg(pl.col("latency").min()).select(first, second, "latency").rows()


def _measured(file: Path, heads: Heads, first: str, second: str) -> pl.DataFrame:
    """All rows but for the number of query heads; attention computed in bf16 where that was measured."""
    whole = read_table(file)
    if WINDOW in whole.columns:
        whole = whole.filter(pl.col(WINDOW) == 0)
    rows = columns(file, whole, *SHAPE, first, second, "latency").filter(
        pl.col("num_key_value_heads") == heads.keys,
        pl.col("head_dim") == heads.width,
        pl.col("kv_cache_dtype") == KV_DTYPES.get(heads.kv_dtype, heads.kv_dtype),
    )
    in_bf16 = rows.filter(pl.col("attn_dtype") == "bfloat16")
    return rows if in_bf16.is_empty() else in_bf16
