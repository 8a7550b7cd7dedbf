"""Where the kernel tables are: files of an installed ``aiconfigurator-core``, which is found and never imported.

``data/SYSTEM/FAMILY/ENGINE/VERSION/NAME_perf.parquet``: one row a measured kernel, ``latency`` in ms.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import polars as pl

from twofold.cost.measured import known_device
from twofold.errors import SpecError

PACKAGE, EXTRA = "aiconfigurator_core", "twofold[silicon]"
MILLI, MICRO = 1e-3, 1e-6
NEEDED = (("gemm", "gemm"), ("attention", "context_attention"), ("attention", "generation_attention"))
"""Without these there is no cost of any model."""


def data_folder() -> Path:
    """The folder of all systems. SpecError, which names the extra, where the package is not installed."""
    found = find_spec(PACKAGE)
    for place in (found.submodule_search_locations or ()) if found is not None else ():
        folder = Path(place) / "systems" / "data"
        if folder.is_dir():
            return folder
    raise SpecError("cost.file", "silicon", f"accepted once its tables are installed: pip install '{EXTRA}'")


@dataclass(frozen=True)
class Kernels:
    """The tables of one system, ``folder``, that one version of an engine is measured with."""

    folder: Path
    engine: str
    version: str

    def files(self, family: str, name: str, engine: str | None = None) -> list[Path]:
        """The files of this version and of those before it, the newest first."""
        below = self.folder / family / (engine or self.engine)
        known = [each for each in _versions(below) if engine is not None or _order(each) <= _order(self.version)]
        files = (below / each / f"{name}_perf.parquet" for each in reversed(known))
        return [file for file in files if file.is_file()]

    def find(self, family: str, name: str, engine: str | None = None) -> Path | None:
        """The newest of them; None without one."""
        return next(iter(self.files(family, name, engine)), None)

    def file(self, family: str, name: str) -> Path:
        """The same; SpecError without one."""
        found = self.find(family, name)
        if found is None:
            raise SpecError("cost.engine", self.engine, f"{self.folder.name} has no {family} table of it")
        return found

    def __str__(self) -> str:
        return f"{self.engine} {self.version} on {self.folder.name}"


def systems(engine: str, version: str | None) -> dict[str, Kernels]:
    """By the name of its device, what there is of an engine: in ``version``, or each system's newest.

    SpecError, with what there is, for an engine or a version that no system has.
    """
    folders = sorted(folder for folder in data_folder().iterdir() if folder.is_dir())
    offered = {folder: list(_offered(folder, engine)) for folder in folders}
    if not any(offered.values()):
        known = sorted({place.name for folder in folders for place in folder.glob("gemm/*") if place.is_dir()})
        raise SpecError("cost.file", f"silicon:{engine}", f"accepted: {', '.join(f'silicon:{name}' for name in known)}")
    found = {
        known_device(folder.name): Kernels(folder, engine, version or versions[-1])
        for folder, versions in offered.items()
        if versions and (version is None or version in versions)
    }
    if not found:
        known = sorted({each for versions in offered.values() for each in versions}, key=_order)
        raise SpecError("cost.file", f"silicon:{engine}@{version}", f"accepted versions: {', '.join(known)}")
    return found


def _offered(folder: Path, engine: str) -> Iterator[str]:
    """Versions of an engine that have a table of each kind that is needed."""
    for version in _versions(folder / "gemm" / engine):
        files = (folder / family / engine / version / f"{name}_perf.parquet" for family, name in NEEDED)
        if all(file.is_file() for file in files):
            yield version


def _versions(folder: Path) -> list[str]:
    return sorted((each.name for each in folder.iterdir() if each.is_dir()), key=_order) if folder.is_dir() else []


def _order(version: str) -> tuple[int, ...]:
    """0.5.6.post2 comes after 0.5.6, and 1.3.0rc20 after 1.3.0rc3."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


@lru_cache(maxsize=64)
def read_table(file: Path) -> pl.DataFrame:
    """A whole table, read once. SpecError for a file that is not one."""
    try:
        return pl.read_parquet(file)
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = " ".join(str(error).split())
        raise SpecError("cost.file", file.name, f"accepted: a readable parquet file ({reason})") from None


def columns(file: Path, table: pl.DataFrame, *names: str) -> pl.DataFrame:
    """These columns of a table. SpecError where one is missing."""
    missing = [name for name in names if name not in table.columns]
    if missing:
        raise SpecError(file.name, missing[0], f"accepted: a table with {', '.join(names)}")
    return table.select(names)
