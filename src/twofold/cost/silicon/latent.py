"""Multi-head latent attention, where it was measured: whole modules less the products they hold, or kernels alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twofold.cost.grids import Sample
from twofold.cost.silicon.attention import Measurement, between_heads, known_heads, with_chunks
from twofold.cost.silicon.dtypes import BLOCKS, KV_DTYPES, PRODUCTS
from twofold.cost.silicon.kernels import Kernels, columns, read_table
from twofold.cost.silicon.products import Multiply, at
from twofold.errors import SpecError
from twofold.spec import catalog
from twofold.spec.model import Model

Floats = NDArray[np.float64]
WIDTHS = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
"""The only latents and heads that were measured, those of DeepSeek-V2 and all that follow it."""
SHAPE = ("num_heads", "mla_dtype", "kv_cache_dtype", "batch_size", "isl", "step", "latency")


class Found(NamedTuple):
    """(batch, length or context, seconds) of ``file``; a module that is named holds products in ``dtype``."""

    file: Path
    rows: list[Measurement]
    module: Model | None = None
    dtype: str | None = None


@dataclass(frozen=True)
class Latent:
    """Attention of ``heads`` query heads of a ``model`` on one device. All seconds are of one layer."""

    kernels: Kernels
    model: Model
    heads: int
    multiply: Multiply

    def __post_init__(self) -> None:
        for name, measured in WIDTHS.items():
            if getattr(self.model, name) != measured:
                raise SpecError(name, getattr(self.model, name), f"accepted with silicon: {measured}")

    def projections(self) -> Floats:
        """What prompts and decodes share, over the tokens of ``multiply``: to latents and queries, and back."""
        return self._projections(self.model)

    def prompts(self) -> list[Sample]:
        """With keys and values made of latents: of those before a chunk again."""
        found = self._found("context", "isl")
        made = self._keys_and_values()
        rows = found.rows
        if found.module is not None:
            held = self._projections(found.module, found.dtype) + self._keys_and_values(found.dtype)
            rows = [(n, length, max(0.0, s - self._at(held, n * length))) for n, length, s in rows]
        return [
            Sample(size, keys, seconds + self._at(made, max(size, keys + size / 2.0)))
            for size, keys, seconds in with_chunks(found.file, rows)
        ]

    def decodes(self) -> list[Sample]:
        """On the latents themselves: queries are carried to them, and what comes out back to the heads."""
        found = self._found("generation", "step")
        if found.module is None:
            tokens, carried = self._carried()
            more = np.interp(self.multiply.tokens, tokens, carried)
        else:
            more = -self._projections(found.module, found.dtype)
        return [Sample(float(n), before + 1.0, max(0.0, s + self._at(more, n))) for n, before, s in found.rows]

    def _projections(self, model: Model, dtype: str | None = None) -> Floats:
        queries = self.heads * (model.qk_nope_head_dim + model.qk_rope_head_dim)
        latents = model.kv_lora_rank + model.qk_rope_head_dim
        back = self.multiply(model.hidden, self.heads * model.v_head_dim, dtype)
        if not model.q_lora_rank:
            return back + self.multiply(latents, model.hidden, dtype) + self.multiply(queries, model.hidden, dtype)
        down = self.multiply(model.q_lora_rank + latents, model.hidden, dtype)
        return back + down + self.multiply(queries, model.q_lora_rank, dtype)

    def _keys_and_values(self, dtype: str | None = None) -> Floats:
        model = self.model
        return self.multiply(self.heads * (model.qk_nope_head_dim + model.v_head_dim), model.kv_lora_rank, dtype)

    def _at(self, seconds: Floats, tokens: float) -> float:
        return float(at(self.multiply.tokens, seconds, np.array(tokens, dtype=np.float64)))

    def _found(self, phase: str, second: str) -> Found:
        """A module with products in the dtype of the weights, else in bf16, else the kernels alone."""
        module, alone = (self.kernels.find("mla", name) for name in (f"mla_{phase}_module", f"{phase}_mla"))
        known: set[str] = set()
        for file, dtype in ((module, self.multiply.dtype), (module, "bf16"), (alone, None)):
            if file is None:
                continue
            table = _rows(file, dtype)
            rows = self._of_cache(table)
            if not rows.is_empty():
                held = None if dtype is None else catalog.model(rows["model"][0])
                return Found(file, self._of_heads(rows, second), held, dtype)
            known |= {ours for ours, theirs in KV_DTYPES.items() if theirs in set(table["kv_cache_dtype"])}
        if not known:
            raise SpecError(
                "kv_lora_rank", self.model.kv_lora_rank, f"accepted with {self.kernels}: 0, it has no mla table"
            )
        accepted = f"accepted with latent attention of {self.kernels}: {', '.join(sorted(known))}"
        raise SpecError("kv_dtype", self.model.kv_dtype, accepted)

    def _of_cache(self, table: pl.DataFrame) -> pl.DataFrame:
        """In the dtype of the KV cache; attention computed in bf16 where that was measured."""
        rows = table.filter(pl.col("kv_cache_dtype") == KV_DTYPES.get(self.model.kv_dtype, self.model.kv_dtype))
        in_bf16 = rows.filter(pl.col("mla_dtype") == "bfloat16")
        return rows if in_bf16.is_empty() else in_bf16

    def _of_heads(self, table: pl.DataFrame, second: str) -> list[Measurement]:
        rows = between_heads(table, self.heads, "batch_size", second)
        if rows is None:
            raise SpecError("heads of a device", self.heads, f"accepted with latent attention: {known_heads(table)}")
        return rows

    def _carried(self) -> tuple[Floats, Floats]:
        """(tokens, seconds) of both products of each head with its part of the up-projection."""
        file = self.kernels.file("mla_bmm", "mla_bmm")
        table = columns(file, read_table(file), "bmm_dtype", "num_tokens", "num_heads", "latency")
        eight_bit = table.filter(pl.col("bmm_dtype") == "fp8")
        chosen = table.filter(pl.col("bmm_dtype") == "bfloat16")
        if self.multiply.dtype in ("fp8", BLOCKS) and not eight_bit.is_empty():
            chosen = eight_bit
        both = chosen.group_by("num_heads", "num_tokens").agg(pl.col("latency").sum()).with_columns(step=0)
        rows = between_heads(both, self.heads, "num_tokens", "step")
        if not rows:
            raise SpecError("heads of a device", self.heads, f"accepted in {file.name}: {known_heads(both)}")
        tokens, _, seconds = zip(*rows, strict=True)
        return np.array(tokens, dtype=np.float64), np.array(seconds)


def _rows(file: Path, dtype: str | None) -> pl.DataFrame:
    """All of a table, or those of a module with products in ``dtype``."""
    if dtype is None:
        return columns(file, read_table(file), *SHAPE)
    table = columns(file, read_table(file), *SHAPE, "model", "gemm_type")
    return table.filter(pl.col("gemm_type") == PRODUCTS.get(dtype, dtype))
