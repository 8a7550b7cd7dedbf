"""What one measured set shows: lines of predicted against measured, clouds of points, and why goals are missed."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Unit = Literal["s", "tokens", "share", ""]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Line:
    """One figure of a set. ``predicted`` and ``measured`` in ``unit``, None for an error over many points.

    ``error`` is predicted / measured - 1, or the mean absolute one; ``goal`` its largest accepted size (None: none was
    set), ``peer`` what another simulator reached on the same, as it printed it.
    """

    what: str
    error: float
    goal: float | None = None
    peer: str = ""
    predicted: float | None = None
    measured: float | None = None
    unit: Unit = ""

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without one."""
        return None if self.goal is None else bool(abs(self.error) <= self.goal)


@dataclass(frozen=True)
class Cloud:
    """Points to draw, predicted over measured, in ``unit``; each of a ``kind``."""

    title: str
    unit: Unit
    predicted: tuple[float, ...]
    measured: tuple[float, ...]
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class MeasuredSet:
    """A set: where it comes from, by which rule it was predicted, its lines and clouds, and why goals are missed."""

    id: str
    title: str
    rule: str
    lines: tuple[Line, ...]
    clouds: tuple[Cloud, ...] = ()
    reasons: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The set as JSON-ready values; ``met`` of each line is added."""
        lines = [asdict(line) | {"met": line.met} for line in self.lines]
        return asdict(self) | {"lines": lines}


@dataclass(frozen=True)
class Report:
    """All sets that were at hand, and which were not and why (a set's id to a reason)."""

    sets: tuple[MeasuredSet, ...]
    skipped: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The JSON object of ``twofold validate --json``. Seconds."""
        return {"sets": [each.to_dict() for each in self.sets], "skipped": self.skipped}


def compared(
    what: str, predicted: float, measured: float, unit: Unit, goal: float | None = None, peer: str = ""
) -> Line:
    """One value against another."""
    return Line(what, predicted / measured - 1.0, goal, peer, float(predicted), float(measured), unit)


def mean_absolute(
    what: str, predicted: ArrayLike, measured: ArrayLike, goal: float | None = None, peer: str = ""
) -> Line:
    """The mean of the absolute relative errors of many points."""
    errors = relative(predicted, measured)
    return Line(f"{what}, mean absolute error of {len(errors)}", float(np.abs(errors).mean()), goal, peer)


def relative(predicted: ArrayLike, measured: ArrayLike) -> Floats:
    """predicted / measured - 1, one a point."""
    return np.asarray(np.asarray(predicted, np.float64) / np.asarray(measured, np.float64) - 1.0)


def cloud(title: str, unit: Unit, predicted: ArrayLike, measured: ArrayLike, kinds: Sequence[str] | str) -> Cloud:
    """Points as a :class:`Cloud`; one kind for all, or one a point."""
    points = np.asarray(measured, np.float64)
    named = (kinds,) * len(points) if isinstance(kinds, str) else tuple(kinds)
    return Cloud(title, unit, tuple(map(float, np.asarray(predicted))), tuple(map(float, points)), named)
