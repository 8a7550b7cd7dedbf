"""The list of sets: what each needs of the data folder, and which function predicts it.

A set of one's own is one more entry: a module here with a function that takes the path found and gives what it shows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import cast

from twofold.errors import SpecError
from twofold.validate.evidence import MeasuredSet, Report

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Source:
    """A set, or with ``each`` one for every match of ``needs`` (a pattern below the data folder): ``id.folder``."""

    id: str
    needs: str
    module: str
    each: bool = False

    def paths(self, data: Path) -> list[tuple[str, Path]]:
        """What there is of it: (id, path)."""
        found = sorted(data.glob(self.needs))
        if self.each:
            return [(f"{self.id}.{path.name}", path) for path in found]
        return [(self.id, found[0])] if found else []

    def predict(self, name: str, path: Path) -> MeasuredSet:
        """Read and predict one of them."""
        module = import_module(f"twofold.validate.{self.module}")
        return cast("Callable[[str, Path], MeasuredSet]", module.predict)(name, path)


SOURCES = (
    Source("vllm", "vllm_runs/*", "vllm_set", each=True),
    Source("h100", "silicon", "end_to_end"),
    Source("h200", "silicon", "h200"),
    Source("kernels.h100", "silicon", "kernels_end_to_end"),
    Source("kernels.h200", "silicon", "kernels_h200"),
    Source("distserve", "distserve", "attainment"),
    Source("splitwise", "splitwise/perf_model.csv", "splitwise"),
)


def known_sets() -> str:
    """What a data folder may have, in words."""
    needed = sorted({source.needs for source in SOURCES})
    return f"{', '.join(needed[:-1])} or {needed[-1]}"


def validate(data: Path, only: str | None = None, progress: Progress | None = None) -> Report:
    """Predict every set below the folder ``data``, or those whose id begins with ``only``.

    One that is not at hand, or that cannot be predicted, is named with the reason. SpecError when no id begins so, and
    for a folder that has none of the sets.
    """
    if not any(source.paths(data) for source in SOURCES):
        raise SpecError("--data", str(data), f"accepted: a folder with {known_sets()}")
    wanted, skipped = _wanted(data, only)
    sets = []
    for count, (source, name, path) in enumerate(wanted):
        if progress is not None:
            progress(count, len(wanted), name)
        try:
            sets.append(source.predict(name, path))
        except SpecError as error:
            skipped[name] = str(error)
    return Report(tuple(sets), skipped)


def _wanted(data: Path, only: str | None) -> tuple[list[tuple[Source, str, Path]], dict[str, str]]:
    found, skipped = [], {}
    for source in SOURCES:
        at_hand = [(source, name, path) for name, path in source.paths(data)]
        if not at_hand:
            skipped[source.id] = f"no {source.needs} in {data.name}"
        found += at_hand
    if only is None:
        return found, skipped
    wanted = [each for each in found if each[1].startswith(only)]
    absent = {name: reason for name, reason in skipped.items() if name.startswith(only)}
    if not wanted and not absent:
        known = ", ".join([*(name for _, name, _ in found), *skipped])
        raise SpecError("--only", only, f"accepted: {known}, or how one of them begins")
    return wanted, absent
