"""The parts of a step, from times that a client of the server has seen.

A step is dense(tokens) + rows(rows of logits) + so much for each prompt chunk and each of its query-key pairs + the
reading of KV, which is the context times something that grows with the number of decodes. What a client sees besides
(HTTP, tokens, the way to the scheduler) is in those of them that it grows with: ``chunk_s`` has that of a request.

Whole prompts do not tell dense layers from attention, which both grow with them. Here dense layers go on straight from
``STRAIGHT`` tokens on, where they are bound by compute, and what bends upwards from there is attention.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from twofold.engine.profile_fit import LAST, RIDGE, Floats, Ramp, solved
from twofold.engine.profile_points import Point

STRAIGHT = 512
Steps = tuple[Point, ...]
"""The steps that a measured time is made of."""
Row = list[float]


class Parts(NamedTuple):
    """The parts as found, in seconds; their parameters are one after the other in ``parameters``."""

    dense: Ramp
    rows: Ramp
    reads: Ramp
    chunks: tuple[int, ...]
    """Sizes of prompt chunks that were measured, ascending."""
    parameters: Floats

    def seconds(self, steps: Iterable[Point]) -> float:
        """How long these steps take."""
        return float(self._weights(steps) @ self.parameters)

    @property
    def chunk_s(self) -> float:
        """Seconds of every chunk, whatever its size."""
        return float(self.parameters[-2])

    @property
    def pair_s(self) -> float:
        """Seconds of a query-key pair of prompts."""
        return float(self.parameters[-1])

    def dense_points(self) -> list[Row]:
        """(tokens, seconds) of all that is done with the tokens of a step, but for attention."""
        sizes = sorted({*self.dense.knots, *self.chunks})
        return [[size, float(self.dense.weights(size) @ self._own()[0])] for size in sizes]

    def row_points(self) -> list[Row]:
        """(rows, seconds) of what grows with the rows of logits."""
        return [[knot, float(self.rows.weights(knot) @ self._own()[1])] for knot in self.rows.knots if knot]

    def prompt_attention(self) -> list[Row]:
        """(tokens, start, seconds) of one chunk at the start of a prompt, and as far from it as was measured."""
        places = ((tokens, start) for tokens in sorted({1, *self.chunks}) for start in (0, self.chunks[-1]))
        return [[tokens, start, self.chunk_s + self.pair_s * tokens * (start + tokens / 2)] for tokens, start in places]

    def decode_attention(self, contexts: Iterable[int]) -> list[Row]:
        """(decodes, context of each, seconds) of all of them."""
        contexts = sorted(contexts)
        each = {count: float(self.reads.weights(count) @ self._own()[2]) for count in self.reads.knots if count}
        return [[count, context, context * seconds] for count, seconds in each.items() for context in contexts]

    def _own(self) -> list[Floats]:
        sizes = [len(ramp.knots) for ramp in (self.dense, self.rows, self.reads)]
        return np.split(self.parameters, np.cumsum(sizes))[: len(sizes)]

    def _weights(self, steps: Iterable[Point]) -> Floats:
        """What each parameter counts for in all of these steps."""
        return np.asarray(np.sum([self._of_step(point) for point in steps], axis=0))

    def _of_step(self, point: Point) -> Floats:
        pairs = sum(tokens * (start + tokens / 2) for tokens, start in point.chunks)
        return np.concatenate(
            [
                self.dense.weights(point.tokens),
                self.rows.weights(point.rows),
                self.reads.weights(point.decodes) * point.context,
                [len(point.chunks), pairs],
            ]
        )


def parts_of(timed: Mapping[Steps, float]) -> Parts:
    """Fit the seconds of these steps, prompts and two numbers of decodes at least, with the same relative weight each.

    No part is negative; knots are where the steps are. What the dense layers can explain is theirs.
    """
    points = [point for steps in timed for point in steps]
    counts = sorted({point.decodes for point in points if point.decodes})
    chunks = sorted({tokens for point in points for tokens, _ in point.chunks})
    from_none = Ramp((0, *counts))
    dense = Ramp(tuple(sorted({*counts, *(tokens for tokens in chunks if tokens <= STRAIGHT)})))
    empty = Parts(dense, from_none, from_none, tuple(chunks), np.zeros(0))
    seconds = np.array(list(timed.values()))
    weights = np.array([empty._weights(steps) for steps in timed]) / seconds[:, None]
    wishes = np.full(weights.shape[1], RIDGE)
    wishes[len(empty.dense.knots) :][: len(from_none.knots)] = LAST
    return empty._replace(parameters=solved(weights, np.ones(len(weights)), wishes))
