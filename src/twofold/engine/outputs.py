"""What a step gives to a request."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from twofold.engine.parts import Sampled

Finish = Literal["stop", "length", "abort", "error"]
NO_TOKEN = -1
"""What a sampler gives where no token can be drawn."""


class Logprob(NamedTuple):
    """Log probability of a token, and the likeliest tokens at its place with theirs, best first."""

    chosen: float
    top: list[tuple[int, float]]


class Times(NamedTuple):
    """A request's life in seconds, without remainder: until its first step, computing its prompt up to the first

    token, waiting between the steps of that, and from the first token to the last.
    """

    queued_s: float
    prefill_s: float
    stall_s: float
    decode_s: float


@dataclass(frozen=True, slots=True)
class Output:
    """Tokens that request ``id`` got, with a log probability each where it asked for them.

    ``finish`` is None while it goes on: ``stop`` by a stop token (which is among its tokens), ``length`` by its limit,
    ``abort`` by its deadline, ``error`` when no token could be drawn. ``times`` come with ``stop`` and ``length``.
    """

    id: str
    token_ids: Sequence[int] = ()
    finish: Finish | None = None
    logprobs: Sequence[Logprob] | None = None
    times: Times | None = None


def row_logprobs(sampled: Sampled) -> list[list[Logprob] | None]:
    """For each row the log probability of its token, None where it is not reported (NaN)."""
    tokens = sampled.tokens.tolist()
    if sampled.logprobs is None:
        return [None] * len(tokens)
    chosen = sampled.logprobs.tolist()
    tops: list[list[tuple[int, float]]] = [[]] * len(tokens) if sampled.top is None else _tops(sampled)
    return [None if math.isnan(value) else [Logprob(value, top)] for value, top in zip(chosen, tops, strict=True)]


def _tops(sampled: Sampled) -> list[list[tuple[int, float]]]:
    rows = zip(sampled.top.ids.tolist(), sampled.top.logprobs.tolist(), strict=True)
    return [[pair for pair in zip(ids, values, strict=True) if pair[0] >= 0] for ids, values in rows]
