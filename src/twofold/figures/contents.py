"""The list of figures: which function recomputes which, and the rows that are asked for."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from twofold.errors import SpecError
from twofold.figures.row import Comparison, Kind, Row

MULTIPLEXING = "PD multiplexing"
LECTURE = "Lecture 7"


@dataclass(frozen=True)
class Figure:
    """Rows that are computed together by ``function`` of ``module``; their ids begin with ``id``."""

    id: str
    chapter: str
    kind: Kind
    module: str
    function: str

    def rows(self) -> Iterator[Row]:
        """Compute the rows."""
        module = import_module(f"twofold.figures.{self.module}")
        compare = cast("Callable[[], Iterable[Comparison]]", getattr(module, self.function))
        for found in compare():
            yield Row(
                id=f"{self.id}.{found.part}" if found.part else self.id,
                chapter=self.chapter,
                kind=self.kind,
                what=found.what,
                chapter_value=found.chapter_value,
                ours=found.ours,
                difference=found.difference,
                ok=found.ok,
                inputs=found.inputs,
            )


FIGURES = (
    Figure("mux.groups", MULTIPLEXING, "exact", "multiplexing", "groups"),
    Figure("mux.choice", MULTIPLEXING, "exact", "multiplexing", "choice"),
    Figure("mux.layers", MULTIPLEXING, "exact", "multiplexing", "layers"),
    Figure("mux.comparison", MULTIPLEXING, "exact", "coexistence", "comparison"),
    Figure("mux.last-division", MULTIPLEXING, "exact", "multiplexing", "last_division"),
    Figure("mux.activations", MULTIPLEXING, "exact", "multiplexing", "activations"),
    Figure("1.2.interference", LECTURE, "model", "steps", "interference"),
    Figure("1.3.stall", LECTURE, "model", "stall", "generation_stall"),
    Figure("2.2.free-compute", LECTURE, "model", "steps", "free_compute"),
    Figure("2.3.lossless", LECTURE, "exact", "chunking", "lossless"),
    Figure("2.5.budget", LECTURE, "model", "budget", "sweep"),
    Figure("2.5.chunking", LECTURE, "model", "chunking", "overhead"),
    Figure("3.1.one-device", LECTURE, "model", "one_device", "figure_1"),
    Figure("3.2.queueing", LECTURE, "exact", "queues", "parallelism"),
    Figure("3.4.kv", LECTURE, "exact", "transfer", "kv_size"),
    Figure("3.5.algorithm-1", LECTURE, "model", "placement", "algorithm"),
    Figure("3.5.instances", LECTURE, "model", "placement", "whole_instances"),
    Figure("4.2.layerwise", LECTURE, "model", "layerwise", "extra_wait"),
    Figure("4.3.older-devices", LECTURE, "model", "older_devices", "decode_on_a100"),
    Figure("5.1.trap", LECTURE, "model", "disaggregation", "trap"),
    Figure("5.2.applications", LECTURE, "model", "disaggregation", "applications"),
    Figure("5.3.slo-scale", LECTURE, "model", "disaggregation", "scaled_slos"),
    Figure("6.3.planner", LECTURE, "model", "changing_load", "planner"),
    Figure("exercise-1", LECTURE, "model", "steps", "exercise_1"),
    Figure("exercise-2", LECTURE, "exact", "chunking", "exercise_2"),
    Figure("exercise-3", LECTURE, "exact", "starvation", "exercise_3"),
    Figure("exercise-4", LECTURE, "exact", "queues", "exercise_4"),
    Figure("exercise-5", LECTURE, "exact", "transfer", "exercise_5"),
    Figure("exercise-6", LECTURE, "exact", "queues", "exercise_6"),
)


def rows(only: str | Sequence[str] | None = None) -> list[Row]:
    """The rows, in the order of the chapters, computed only where they are asked for.

    ``only`` is an id or several, or the beginning of ids up to a ``.`` or ``-``, as ``mux``, ``2.2`` or
    ``exercise``; None means all. SpecError when one names no row.
    """
    if only is None:
        return [row for figure in FIGURES for row in figure.rows()]
    wanted = [only] if isinstance(only, str) else list(only)
    touched = [figure for figure in FIGURES if any(_related(figure.id, name) for name in wanted)]
    found = [row for figure in touched for row in figure.rows()]
    for name in wanted:
        if not any(_begins(row.id, name) for row in found):
            accepted = f"accepted: {', '.join(figure.id for figure in FIGURES)}, or the beginning of one"
            raise SpecError("only", name, accepted)
    return [row for row in found if any(_begins(row.id, name) for name in wanted)]


def _related(figure: str, name: str) -> bool:
    return _begins(figure, name) or _begins(name, figure)


def _begins(identifier: str, name: str) -> bool:
    return identifier == name or (identifier.startswith(name) and identifier[len(name)] in ".-")
