"""A package of kernel tables, made by hand."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from twofold.cost.silicon.compose import tables_of
from twofold.cost.silicon.kernels import read_table
from twofold.cost.silicon.products import read_products
from twofold.spec.model import Model

sys.path.insert(0, str(Path(__file__).parent))

from made_tables import decodes, products, prompts

PACKAGE = "aiconfigurator_core"
Write = Callable[..., Path]


@pytest.fixture
def tiny() -> Model:
    """Two layers, four heads of queries over two of keys."""
    shape = {"layers": 2, "hidden": 256, "heads": 4, "kv_heads": 2, "head_dim": 64, "ffn": 512, "vocab": 1024}
    return Model(name="tiny", **shape)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a table of a package that must never be imported, and gives its file."""
    package = tmp_path / PACKAGE
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)

    def made(place: str, rows: Iterable[dict[str, Any]], system: str = "h100_sxm") -> Path:
        file = package / "systems" / "data" / system / f"{place}_perf.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pl.DataFrame(list(rows)).write_parquet(file)
        for cached in (tables_of, read_table, read_products):
            cached.cache_clear()
        return file

    return made


@pytest.fixture
def kernels(write: Write) -> Write:
    """``vllm`` 1.0.10 with what every model needs, for one device of ``tiny`` and for one of two."""
    write("gemm/vllm/1.0.10/gemm", products())
    write("attention/vllm/1.0.10/context_attention", prompts() + prompts(2, 1))
    write("attention/vllm/1.0.10/generation_attention", decodes() + decodes(2, 1))
    return write
