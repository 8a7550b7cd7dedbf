"""From times of whole steps to the parts that they are made of: non-negative least squares over ramps.

A step is host time + dense(tokens) + rows(rows) + the attention of its prompt chunks + that of its decodes. What one
measurement alone cannot tell apart, several together can: as many tokens in one prompt, in several, and in decodes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twofold.engine.profile_points import Point

Floats = NDArray[np.float64]
RIDGE = 1e-3
"""Weight of the wish for small numbers, which decides only where the measurements do not."""
LAST = 0.1
"""The same for parts that are for what no other part explains."""
PASSES = 400
DIGITS = 9
"""Of seconds in a file."""


class Ramp(NamedTuple):
    """A function that never falls: straight between ``knots``, goes on as between the last two, level before the first.

    Its parameters are what it has at the first knot and what each later one adds.
    """

    knots: tuple[int, ...]

    def weights(self, at: float) -> Floats:
        """What each parameter counts for at ``at``; what lies at knot 0 is nothing."""
        places = np.array(self.knots, float)
        reached = np.clip((at - places[:-1]) / np.diff(places), 0.0, None)
        reached[:-1] = np.minimum(reached[:-1], 1.0)
        return np.concatenate([[float(self.knots[0] > 0)], reached])


@dataclass(frozen=True)
class Form:
    """The parts of a step and their knots, in numbers of tokens, rows of logits and decodes."""

    dense: Ramp
    rows: Ramp
    decodes: tuple[int, ...]
    chunks: tuple[int, ...]

    @classmethod
    def of(cls, points: Iterable[Point]) -> "Form":
        """Knots where the points are."""
        points = list(points)
        return cls(
            dense=Ramp(_knots({point.tokens for point in points if point.kind != "mixed"})),
            rows=Ramp(_knots({0, *(point.rows for point in points)})),
            decodes=_knots({point.decodes for point in points if point.decodes}),
            chunks=_knots({tokens for point in points for tokens, _ in point.chunks}),
        )

    def dense_and_rows(self, point: Point) -> Floats:
        """Weights of the first parameters."""
        return np.concatenate([self.dense.weights(point.tokens), self.rows.weights(point.rows)])

    def attention(self, point: Point) -> Floats:
        """Weights of the other parameters.

        Prompts take so much for their tokens together (at each knot: other kernels compute them than a few decodes),
        for each chunk and for its pairs; a chunk after others, which needs a mask and gathers their KV, more for each,
        and for where it starts. Decodes take so much at each knot of their number, and for their context.
        """
        prompts = np.zeros(6)
        for tokens, start in point.chunks:
            pairs = tokens * tokens / 2
            prompts += (1, pairs, start > 0, pairs * (start > 0), start, tokens * start)
        there = _hats(self.chunks, point.prompt_tokens) * bool(point.chunks)
        several = _hats(self.decodes, point.decodes) * bool(point.decodes)
        return np.concatenate([prompts, there, several, several * point.context])

    @property
    def wishes(self) -> Floats:
        """How much each parameter should be small: what the dense layers can explain is theirs."""
        hats = len(self.chunks) + len(self.decodes)
        own = len(self.dense.knots) + len(self.rows.knots) + 6
        return np.concatenate([np.full(own, RIDGE), np.full(hats, LAST), np.full(len(self.decodes), RIDGE)])

    def row(self, point: Point) -> Floats:
        """Weights of all parameters."""
        return np.concatenate([self.dense_and_rows(point), self.attention(point)])


class Fit(NamedTuple):
    """Parts of a step as found: ``host_s`` of every step, and the ``parameters`` of ``form``, in seconds."""

    form: Form
    host_s: float
    parameters: Floats

    def seconds(self, point: Point) -> float:
        """How long such a step takes."""
        return self.host_s + float(self.form.row(point) @ self.parameters)

    @property
    def dense(self) -> list[list[float]]:
        """(tokens, seconds) of all that is done with the tokens of a step, but for attention."""
        ramp = self.form.dense
        own = self.parameters[: len(ramp.knots)]
        return [[knot, float(ramp.weights(knot) @ own)] for knot in ramp.knots]

    @property
    def rows(self) -> list[list[float]]:
        """(rows, seconds) of the output matrix and of sampling."""
        first, ramp = len(self.form.dense.knots), self.form.rows
        own = self.parameters[first : first + len(ramp.knots)]
        return [[knot, float(ramp.weights(knot) @ own)] for knot in ramp.knots if knot]

    def prompt_attention(self, starts: Iterable[int]) -> list[list[float]]:
        """(tokens, start, seconds) of one chunk in all layers, at each knot and start."""
        places = product(self.form.chunks, sorted(starts))
        return [[tokens, start, self._attention(Point(chunks=((tokens, start),)))] for tokens, start in places]

    def decode_attention(self, contexts: Iterable[int]) -> list[list[float]]:
        """(decodes, context of each, seconds) of all of them in all layers, at each knot and context."""
        places = product(self.form.decodes, sorted(contexts))
        return [[decodes, context, self._attention(Point(decodes, context))] for decodes, context in places]

    def _attention(self, point: Point) -> float:
        weights = self.form.attention(point)
        return float(weights @ self.parameters[-len(weights) :])

    def errors(self, measured: Mapping[Point, float]) -> dict[str, float]:
        """Root mean square of the relative error by kind of step."""
        return residuals((point.kind, self.seconds(point) / seconds - 1) for point, seconds in measured.items())


def fit(measured: Mapping[Point, float], host_s: float) -> Fit:
    """Fit the seconds of these steps, every one with the same relative weight."""
    form = Form.of(measured)
    seconds = np.array(list(measured.values()))
    rows = np.array([form.row(point) for point in measured]) / seconds[:, None]
    return Fit(form, host_s, solved(rows, np.maximum(seconds - host_s, 0.0) / seconds, form.wishes))


def solved(rows: Floats, wanted: Floats, wishes: Floats) -> Floats:
    """The x >= 0 that brings ``rows @ x`` nearest to ``wanted``.

    Where that leaves a choice each is as small as its weight in ``wishes`` says; one that no row has is 0.
    """
    scale = np.linalg.norm(rows, axis=0)
    used = scale > 0
    ridge = np.diag(wishes[used])
    found = nonnegative(np.vstack([rows[:, used] / scale[used], ridge]), np.concatenate([wanted, np.zeros(len(ridge))]))
    parameters = np.zeros(len(scale))
    parameters[used] = found / scale[used]
    return parameters


def residuals(errors: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Root mean square of the errors by kind of step."""
    kinds: dict[str, list[float]] = {}
    for kind, error in errors:
        kinds.setdefault(kind, []).append(error)
    return {kind: float(np.sqrt(np.mean(np.square(found)))) for kind, found in sorted(kinds.items())}


def rounded(rows: list[list[float]]) -> list[list[float]]:
    """Rows of a cost file, their seconds to the nanosecond."""
    return [[*places, round(seconds, DIGITS)] for *places, seconds in rows]


def nonnegative(matrix: Floats, wanted: Floats) -> Floats:
    """The x >= 0 that brings ``matrix @ x`` nearest to ``wanted`` (Lawson and Hanson 1974, chapter 23)."""
    x = np.zeros(matrix.shape[1])
    free = np.zeros(len(x), bool)
    for _ in range(PASSES):
        gain = matrix.T @ (wanted - matrix @ x)
        gain[free] = 0.0
        if gain.max() <= 1e-10:
            break
        free[gain.argmax()] = True
        x = _within(matrix, wanted, x, free)
    return x


def _within(matrix: Floats, wanted: Floats, x: Floats, free: NDArray[np.bool_]) -> Floats:
    """The best x with only the ``free`` ones above 0; those that would fall below are taken out of ``free``."""
    while True:
        best = np.zeros(len(x))
        best[free] = np.linalg.lstsq(matrix[:, free], wanted, rcond=None)[0]
        falling = free & (best <= 0.0)
        if not falling.any():
            return best
        step = (x[falling] / np.maximum(x[falling] - best[falling], 1e-300)).min()
        x = x + step * (best - x)
        free &= x > 1e-15
        x[~free] = 0.0


def _hats(knots: tuple[int, ...], at: float) -> Floats:
    """What each knot counts for at ``at``, straight between them and level beyond."""
    return np.array([np.interp(at, knots, row) for row in np.eye(len(knots))])


def _knots(places: set[int]) -> tuple[int, ...]:
    """At least two of them, in order."""
    found = sorted(places)
    return (*found, found[-1] + 1) if len(found) == 1 else tuple(found)
