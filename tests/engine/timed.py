"""A decoder that computes nothing and takes a known time on a clock of its own: what the tests of the profile share."""

from pathlib import Path
from typing import Any

import torch
from fakes import MODEL
from torch import Tensor

from twofold.engine.batch import Batch
from twofold.engine.load import Loaded
from twofold.engine.profile_points import Point


def dense_and_attention(decodes: int, context: int, chunks: list[tuple[int, int]]) -> float:
    """Seconds of all layers: reading the weights or multiplying, and attention; ``context`` of all decodes."""
    tokens = decodes + sum(count for count, _ in chunks)
    seconds = max(0.025, 0.00095 * tokens) + 0.0005 * (decodes > 0) + 2e-6 * context
    for count, start in chunks:
        pairs = count * count / 2
        seconds += 0.0006 + (2e-7 * pairs if start == 0 else 3e-7 * (count * start + pairs) + 1e-6 * start)
    return seconds


def output_matrix(rows: int) -> float:
    """Seconds of the rows of logits."""
    return max(0.006, 0.0015 * rows) if rows else 0.0


def expected(point: Point) -> float:
    """Seconds of a step."""
    layers = dense_and_attention(point.decodes, point.decodes * point.context, list(point.chunks))
    return layers + output_matrix(point.rows)


def waking(pause: float) -> float:
    """Seconds that a step takes more after a pause."""
    return 0.03 if pause > 0.1 else 0.0


class Timed:
    """Keeps the time; ``steps`` counts the steps that it ran."""

    def __init__(self) -> None:
        self.now, self.steps, self.paused = 0.0, 0, 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.paused = seconds

    def clock(self) -> float:
        return self.now

    def embed(self, tokens: Tensor) -> Tensor:
        return torch.zeros(len(tokens), 1)

    def layers(self, hidden: Tensor, batch: Batch, pool: Any, first: int, last: int) -> Tensor:
        self.steps += 1
        self.now += waking(self.paused)
        self.paused = 0.0
        ends, contexts, many = batch.starts.tolist(), batch.contexts.tolist(), batch.decodes
        chunks = [(ends[i + 1] - ends[i], contexts[i] - ends[i + 1] + ends[i]) for i in range(many, len(contexts))]
        self.now += dense_and_attention(many, sum(contexts[:many]) - many, chunks)
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        self.now += output_matrix(len(hidden))
        return torch.zeros(len(hidden), MODEL.vocab)


def loaded(decoder: Any) -> Loaded:
    """The model of the fakes, with a context of 2,048 tokens."""
    return Loaded(MODEL, decoder, Path(), "timed", set(), None, 2048)
