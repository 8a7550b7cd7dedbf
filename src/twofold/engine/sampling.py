"""From logits to tokens: every request by its own parameters, all rows of a step at once."""

import math
import secrets
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from twofold.engine import filters
from twofold.engine.biases import Biases
from twofold.engine.grammar import Grammars, Matcher
from twofold.engine.params import Params
from twofold.engine.penalties import Penalties
from twofold.engine.random import uniform
from twofold.errors import SpecError

COLDEST = 1e-6
NONE = -1


class Top(NamedTuple):
    """The likeliest tokens of each row, best first: K is the most that a row asks for; -1 and NaN fill the others."""

    ids: Tensor
    logprobs: Tensor


class Sampled(NamedTuple):
    """One token a row, on the device of the logits.

    ``tokens`` int64[R] is -1 where no token can be drawn: the logits are not numbers, or the grammar is at an error.
    ``logprobs`` float32[R] and ``top`` ([R, K] each) are None unless a row asks; rows that do not ask hold NaN.
    They are log softmax of the logits as the model gave them.
    """

    tokens: Tensor
    logprobs: Tensor | None
    top: Top | None


class Sampler:
    """Draws tokens for the requests in ``slots`` places; a place holds one request at a time.

    A row's token depends on its logits, its parameters, its own tokens so far and the draw of (seed, number of tokens
    output so far): never on the other rows of a step. ``ends`` are the ids that end any output, ``grammars`` compiles
    structured output; without it a request with a grammar is refused.
    """

    def __init__(
        self,
        slots: int,
        vocab: int,
        *,
        ends: Collection[int] = (),
        grammars: Grammars | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self._vocab, self._grammars, self._device = vocab, grammars, device
        self._biases = Biases(ends, device)
        self._penalties = Penalties()
        self._matchers: dict[int, Matcher] = {}
        self._temperature = np.ones(slots, np.float32)
        self._top_k = np.full(slots, vocab, np.int64)
        self._top_p = np.ones(slots, np.float64)
        self._min_p = np.zeros(slots, np.float32)
        self._seed = np.zeros(slots, np.uint64)
        self._written = np.zeros(slots, np.int64)
        self._top = np.full(slots, NONE, np.int64)

    def add(self, slot: int, params: Params, prompt_ids: Sequence[int], written: Sequence[int] = ()) -> None:
        """Begin the request in ``slot``, or take it up again after the tokens it has ``written``.

        Raises ``SpecError`` for a token id outside the vocabulary and for a grammar that cannot be followed.
        """
        params.check_ids(self._vocab)
        if params.grammar is not None:
            self._matchers[slot] = self._matcher(params, written)
        self._temperature[slot] = params.temperature
        self._top_k[slot] = min(params.top_k, self._vocab) if params.top_k > 0 else self._vocab
        self._top_p[slot], self._min_p[slot] = params.top_p, params.min_p
        self._seed[slot] = (secrets.randbits(64) if params.seed is None else params.seed) % 2**64
        self._written[slot] = len(written)
        self._top[slot] = params.top_logprobs if params.logprobs else NONE
        self._biases.add(slot, params)
        self._penalties.add(slot, params, prompt_ids, written)

    def drop(self, slot: int) -> None:
        """Forget the request in ``slot``."""
        self._biases.drop(slot)
        self._penalties.drop(slot)
        self._matchers.pop(slot, None)

    def sample(self, logits: Tensor, slots: Tensor | NDArray[np.int64]) -> Sampled:
        """The next token of the requests in ``slots`` [R], each in there once; overwrites ``logits`` float32[R, V]."""
        places: list[int] = slots.tolist()
        asked = self._top[places]
        rows = np.flatnonzero(asked > NONE)
        reported = logits[self._tensor(rows)].log_softmax(-1) if len(rows) else None
        self._adjust(logits, places)
        tokens = self._choose(logits, places)
        self._advance(tokens, places)
        if reported is None:
            return Sampled(tokens, None, None)
        return Sampled(tokens, *self._report(reported, self._tensor(rows), tokens, asked))

    def _matcher(self, params: Params, written: Sequence[int]) -> Matcher:
        if self._grammars is None or params.grammar is None:
            raise SpecError("grammar", params.grammar, "accepted: none, as this engine has no tokenizer")
        matcher = self._grammars.matcher(params.grammar)
        for token in written:
            if not matcher.advance(token):
                raise SpecError("written", token, "accepted: tokens that the grammar allows")
        return matcher

    def _adjust(self, logits: Tensor, places: list[int]) -> None:
        self._biases.move(logits, places)
        self._penalties.apply(logits, places)
        self._biases.ban(logits, places, self._written[places].tolist())
        bound = [(row, self._matchers[slot]) for row, slot in enumerate(places) if slot in self._matchers]
        if self._grammars is None or not bound:
            return
        words = np.zeros((len(bound), self._grammars.words), np.int32)
        for word, (_, matcher) in zip(words, bound, strict=True):
            matcher.allow(word)
        closed = np.unpackbits(~words.view(np.uint8), axis=-1, count=self._vocab, bitorder="little").view(np.bool_)
        if len(bound) == len(places):
            logits.masked_fill_(self._tensor(closed), -math.inf)
        else:
            rows = self._tensor(np.array([row for row, _ in bound]))
            logits[rows] = logits[rows].masked_fill(self._tensor(closed), -math.inf)

    def _choose(self, logits: Tensor, places: list[int]) -> Tensor:
        largest, tokens = logits.max(-1)
        rows = np.flatnonzero(self._temperature[places] >= COLDEST)
        if len(rows):
            index = self._tensor(rows)
            tokens[index] = self._draw(logits, largest, index, np.array(places)[rows])
        return torch.where(largest.abs() < math.inf, tokens, NONE)

    def _draw(self, logits: Tensor, largest: Tensor, index: Tensor, chosen: NDArray[np.int64]) -> Tensor:
        part = logits if len(index) == len(logits) else logits[index]
        part = filters.scale(part, largest[index], self._tensor(self._temperature[chosen]))
        columns = (self._tensor(column[chosen]) for column in (self._top_k, self._top_p, self._min_p))
        chances = self._tensor(uniform(self._seed[chosen], self._written[chosen]))
        return filters.draw(part, filters.floors(part, *columns), chances)

    def _advance(self, tokens: Tensor, places: list[int]) -> None:
        self._written[places] += 1
        self._penalties.count(tokens, places)
        bound = [(row, self._matchers[slot]) for row, slot in enumerate(places) if slot in self._matchers]
        if not bound:
            return
        taken = tokens.tolist()
        for row, matcher in bound:
            if taken[row] == NONE or not matcher.advance(taken[row]):
                tokens[row] = NONE

    def _report(
        self, reported: Tensor, rows: Tensor, tokens: Tensor, asked: NDArray[np.int64]
    ) -> tuple[Tensor, Top | None]:
        logprobs = reported.new_full((len(tokens),), math.nan)
        logprobs[rows] = reported.gather(-1, tokens[rows].clamp(min=0).unsqueeze(-1)).squeeze(-1)
        logprobs[tokens == NONE] = math.nan
        most = min(int(asked.max()), self._vocab)
        if most == 0:
            return logprobs, None
        best = reported.topk(most)
        ids = tokens.new_full((len(tokens), most), NONE)
        values = logprobs.new_full((len(tokens), most), math.nan)
        unasked = torch.arange(most, device=rows.device) >= self._tensor(asked)[rows].unsqueeze(-1)
        ids[rows] = best.indices.masked_fill(unasked, NONE)
        values[rows] = best.values.masked_fill(unasked, math.nan)
        return logprobs, Top(ids, values)

    def _tensor(self, values: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(values).to(self._device)
