"""Steps to measure: a grid that a fit is made to, and random ones that it is held against."""

from itertools import product
from typing import NamedTuple

import numpy as np

from twofold.engine.decisions import kind_of

DECODES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
CHUNKS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
LATER_CHUNKS = (16, 64, 256, 512)
PREFIXES = (64, 512, 2048, 4096, 8192)
CONTEXTS = (64, 512, 1024, 2048, 4096, 8192)
SEVERAL = ((4, 16), (16, 16), (4, 64), (8, 64), (4, 128), (2, 256), (4, 256), (2, 512), (2, 1024))
BESIDE = ((1, 64), (4, 512), (16, 64), (16, 512), (32, 256), (64, 64))
SPARE = 16
"""Tokens that a request may grow by while it is measured."""


class Point(NamedTuple):
    """One step: ``decodes`` of ``context`` KV tokens each, and ``chunks`` of prompts, each (tokens, start).

    The prompts end with their chunks where ``ends``, and give a row of logits then. Only a chunk that is alone starts
    after 0.
    """

    decodes: int = 0
    context: int = 0
    chunks: tuple[tuple[int, int], ...] = ()
    ends: bool = True

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens of the step."""
        return sum(tokens for tokens, _ in self.chunks)

    @property
    def tokens(self) -> int:
        """All tokens of the step."""
        return self.decodes + self.prompt_tokens

    @property
    def rows(self) -> int:
        """Rows of logits."""
        return self.decodes + (len(self.chunks) if self.ends else 0)

    @property
    def kind(self) -> str:
        """``prompt``, ``decode`` or ``mixed``."""
        return kind_of(len(self.chunks), self.decodes)


class Bounds(NamedTuple):
    """The largest of everything: tokens of a ``chunk``, ``decodes``, tokens of a request, KV tokens of all of them."""

    chunk: int
    decodes: int
    context: int
    kv: int

    def hold(self, point: Point) -> bool:
        """Whether a step can be had within these bounds."""
        longest = max([tokens + start for tokens, start in point.chunks] + [point.context])
        held = point.decodes * (point.context + 2 * SPARE)
        held += sum(tokens + start + 2 * SPARE for tokens, start in point.chunks)
        fits = point.decodes <= self.decodes and longest + SPARE <= self.context and held <= self.kv
        return fits and point.prompt_tokens <= self.chunk


def grid(bounds: Bounds, coarse: bool) -> list[Point]:
    """Every size of decode batch and chunk with a few contexts and starts, some of them together."""
    decodes = [n for n in DECODES if n <= bounds.decodes and not (coarse and n & (n - 1))]
    smaller = [n for n in CHUNKS if n < bounds.chunk and not (coarse and n & (n - 1))]
    chunks, starts = [*smaller, bounds.chunk], _thinned(_reaching(PREFIXES, bounds.context), coarse)
    later = sorted({n for n in LATER_CHUNKS if n < bounds.chunk} | {bounds.chunk})
    points = [Point(n, context) for n in decodes for context in _contexts(n, bounds, coarse)]
    points += [Point(chunks=((tokens, 0),), ends=False) for tokens in chunks]
    points += [Point(chunks=((tokens, 0),)) for tokens in chunks[::4]]
    points += [Point(chunks=((tokens, start),), ends=False) for tokens, start in product(later, starts)]
    points += [Point(chunks=((tokens, 0),) * count) for count, tokens in SEVERAL]
    points += [
        Point(*beside, ((tokens, 0),), False) for beside, tokens in product(BESIDE[:: 2 if coarse else 1], later[1:])
    ]
    return [point for point in points if bounds.hold(point)]


def held_out(bounds: Bounds, count: int, rng: np.random.Generator) -> list[Point]:
    """``count`` random steps of each kind; sizes even on a logarithmic scale."""
    drawn: list[Point] = []
    for kind in ("prompt", "decode", "mixed"):
        found = 0
        while found < count:
            point = _draw(kind, bounds, rng)
            if bounds.hold(point):
                drawn.append(point)
                found += 1
    return drawn


def _draw(kind: str, bounds: Bounds, rng: np.random.Generator) -> Point:
    decodes, context = _size(1, bounds.decodes, rng), _size(16, bounds.context // 2, rng)
    tokens, start = _size(16, bounds.chunk, rng), _size(16, bounds.context // 2, rng)
    together = int(rng.choice((1, 1, 1, 2, 3)))
    if kind == "decode":
        return Point(decodes, context)
    ends = bool(rng.integers(2))
    if together == 1 or bounds.chunk < together * 16:
        chunks: tuple[tuple[int, int], ...] = ((tokens, start if rng.integers(2) else 0),)
    else:
        chunks, ends = ((max(1, tokens // together), 0),) * together, True
    return Point(decodes, context, chunks, ends) if kind == "mixed" else Point(0, 0, chunks, ends)


def _size(least: int, most: int, rng: np.random.Generator) -> int:
    least = min(least, most)
    return round(float(np.exp(rng.uniform(np.log(least), np.log(most)))))


def _contexts(decodes: int, bounds: Bounds, coarse: bool) -> list[int]:
    """Contexts of so many decodes; none where memory has not room for two of them."""
    fitting = [context for context in _reaching(CONTEXTS, bounds.context) if bounds.hold(Point(decodes, context))]
    return _thinned(fitting, coarse) if len(fitting) > 1 else []


def _reaching(sizes: tuple[int, ...], context: int) -> list[int]:
    """Those up to half of the context, two at least."""
    fitting = [size for size in sizes if 2 * size <= context]
    return fitting if len(fitting) > 1 else [context // 8, context // 2]


def _thinned(sizes: list[int], coarse: bool) -> list[int]:
    """Only the smallest and the largest where ``coarse``."""
    return [sizes[0], sizes[-1]] if coarse else sizes
