"""Sessions of several turns and shared prefixes: their requests, and the pieces of KV that those share."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from pydantic import BeforeValidator, Field

from twofold.spec.checked import Checked, Positive, Seconds
from twofold.spec.lengths import Lengths
from twofold.spec.workload import Floats, Ints, Longs, Workload

LengthText = Annotated[str, BeforeValidator(lambda value: str(Lengths.parse(value, "")))]

CHUNK = 1 << 18


class SharedPrefix(Checked):
    """System prompts: each session (or request) starts with one of ``pool`` texts of ``tokens`` tokens.

    Text k of the pool is chosen in proportion to k^-``popularity`` (0: all alike).
    """

    pool: Positive = 1
    tokens: LengthText = "fixed:1024"
    popularity: Annotated[float, Field(ge=0)] = 1.0


class Sessions(Checked):
    """Conversations: a turn's prompt is all that was said before and new text drawn from ``prompt``.

    ``turns`` is a distribution of the number of turns; ``think_s`` the mean of the exponential time from one
    turn's arrival to the next one's. ``max_tokens`` ends a session before the turn whose prompt and output
    would exceed it.
    """

    turns: LengthText = "geometric:3"
    think_s: Annotated[Seconds, Field(gt=0)] = 30.0
    max_tokens: Positive | None = None


class Turns(NamedTuple):
    """As drawn, session by session: starts float64[s], turns int64[s]; new tokens of each turn, int32[n]."""

    start_s: Floats
    turns: Longs
    prompt: Ints
    output: Ints

    @property
    def session(self) -> Longs:
        """Session of each turn, int64[n]."""
        return np.repeat(np.arange(len(self.turns)), self.turns)

    @property
    def first(self) -> Longs:
        """Index of the first turn of each turn's session, int64[n]."""
        return np.repeat(np.cumsum(self.turns) - self.turns, self.turns)


class Prefixes(NamedTuple):
    """The pool of shared texts: tokens int64[pool], and the text of each session int64[s]."""

    tokens: Longs
    choice: Longs


def draw_prefixes(shared: SharedPrefix | None, rng: np.random.Generator, sessions: int) -> Prefixes:
    """The texts and the choice of each session; one text of 0 tokens without a shared prefix."""
    if shared is None:
        return Prefixes(np.zeros(1, np.int64), np.zeros(sessions, np.int64))
    tokens = Lengths.parse(shared.tokens).sample(rng, shared.pool).astype(np.int64)
    weight = np.arange(1, shared.pool + 1, dtype=np.float64) ** -shared.popularity
    share = np.cumsum(weight) / weight.sum()
    share[-1] = 1.0
    return Prefixes(tokens, np.searchsorted(share, rng.random(sessions), side="right"))


def arrival_times(turns: Turns, think_s: float, rng: np.random.Generator) -> Floats:
    """Arrival of every turn, float64[n]: the session's start, then exponential gaps of mean ``think_s``."""
    waited = np.cumsum(think_s * rng.standard_exponential(len(turns.prompt)))
    times: Floats = turns.start_s[turns.session] + waited - waited[turns.first]
    return times


def join(
    name: str, turns: Turns, prefixes: Prefixes, times: Floats, rows: Longs, hash_tokens: int, held: Longs
) -> Workload:
    """The workload of the turns ``rows`` (in order of arrival), each holding ``held`` tokens at its end."""
    session = turns.session[rows]
    start, ids = _piece_ids(session, prefixes, held[rows], hash_tokens)
    return Workload(
        name=name,
        arrival_s=times[rows],
        prompt_tokens=(held - turns.output)[rows].astype(np.int32),
        output_tokens=turns.output[rows],
        hash_tokens=hash_tokens,
        hash_start=start,
        hash_ids=ids,
    )


def held_tokens(turns: Turns, prefixes: Prefixes) -> Longs:
    """Tokens of prompt and output when each turn ends: shared text and all that was said so far, int64[n]."""
    new = turns.prompt.astype(np.int64) + turns.output
    said = np.cumsum(new)
    before = (said - new)[turns.first]
    held: Longs = prefixes.tokens[prefixes.choice][turns.session] + said - before
    return held


def _piece_ids(session: Longs, prefixes: Prefixes, held: Longs, piece: int) -> tuple[Longs, Longs]:
    """Ids from 1 on: first those of the shared texts, then a range for each session."""
    count = held // piece
    start = np.concatenate([[0], np.cumsum(count)])
    pool = prefixes.tokens // piece
    text_id = np.cumsum(pool) - pool + 1
    longest = np.zeros(len(prefixes.choice), np.int64)
    np.maximum.at(longest, session, count)
    session_id = np.cumsum(longest) - longest + pool.sum() + 1
    ids = np.empty(start[-1], np.int64)
    for low in range(0, len(session), CHUNK):
        rows = slice(low, low + CHUNK)
        text = prefixes.choice[session[rows]]
        place = np.arange(start[low], start[min(low + CHUNK, len(session))])
        place -= np.repeat(start[:-1][rows], count[rows])
        shared = place < np.repeat(pool[text], count[rows])
        base = np.where(
            shared, np.repeat(text_id[text], count[rows]), np.repeat(session_id[session[rows]], count[rows])
        )
        ids[start[low] : start[low] + len(place)] = base + place
    return start, ids
