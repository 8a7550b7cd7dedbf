"""What a request asks of the sampler, checked."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from twofold.engine.grammar import Grammar
from twofold.errors import SpecError

MOST_LOGPROBS = 20
MOST_CHOICES = 128
LARGEST_BIAS = 100.0
LARGEST_PENALTY = 2.0


@dataclass(frozen=True, kw_only=True)
class Params:
    """Sampling parameters of one request, under the names and meanings of the OpenAI API and of vLLM.

    - ``temperature`` 0 takes the likeliest token; ``top_k`` 0 or -1, ``top_p`` 1 and ``min_p`` 0 keep every token.
    - ``seed``: the same seed, prompt and parameters give the same tokens whoever shares the batch; None draws one.
    - ``repetition_penalty`` concerns the tokens of prompt and output, the other two those of the output.
    - ``logit_bias``: what is added to the logits of token ids, at most 100 either way.
    - ``stop``: strings that end the text, left out of it unless ``include_stop``; ``stop_ids``: tokens that do.
    - ``max_tokens`` None lets the output fill the context. Before ``min_tokens`` tokens nothing ends the output.
    - ``logprobs``: report the log-probability of each token (log softmax of the model's own logits, before any
      parameter here), and with ``top_logprobs`` those of the likeliest tokens.
    - ``n``: how many outputs; the engine takes one at a time, see ``choices``.
    - ``grammar``: what the output must spell; it ends where the grammar does.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    stop: tuple[str, ...] = ()
    stop_ids: tuple[int, ...] = ()
    include_stop: bool = False
    max_tokens: int | None = None
    min_tokens: int = 0
    ignore_eos: bool = False
    logprobs: bool = False
    top_logprobs: int = 0
    n: int = 1
    grammar: Grammar | None = None

    def __post_init__(self) -> None:
        """Raise ``SpecError`` for the first field that is not accepted."""
        _number("temperature", self.temperature, 0.0, math.inf)
        _whole("top_k", self.top_k, -1)
        _number("top_p", self.top_p, 0.0, 1.0, above=True)
        _number("min_p", self.min_p, 0.0, 1.0)
        if self.seed is not None:
            _whole("seed", self.seed, -(2**63), 2**64 - 1)
        _number("repetition_penalty", self.repetition_penalty, 0.0, math.inf, above=True)
        _number("presence_penalty", self.presence_penalty, -LARGEST_PENALTY, LARGEST_PENALTY)
        _number("frequency_penalty", self.frequency_penalty, -LARGEST_PENALTY, LARGEST_PENALTY)
        _biases(self.logit_bias)
        _each("stop", self.stop, str)
        _each("stop_ids", self.stop_ids, int)
        for name in ("include_stop", "ignore_eos", "logprobs"):
            if not isinstance(getattr(self, name), bool):
                raise SpecError(name, getattr(self, name), "accepted: true or false")
        if self.max_tokens is not None:
            _whole("max_tokens", self.max_tokens, 1)
        _whole("min_tokens", self.min_tokens, 0, self.max_tokens)
        _whole("top_logprobs", self.top_logprobs, 0, MOST_LOGPROBS)
        if self.top_logprobs and not self.logprobs:
            raise SpecError("top_logprobs", self.top_logprobs, "accepted: 0, unless logprobs is true")
        _whole("n", self.n, 1, MOST_CHOICES)
        self._check_grammar()

    def _check_grammar(self) -> None:
        if self.grammar is None:
            return
        if not isinstance(self.grammar, Grammar):
            raise SpecError("grammar", self.grammar, "accepted: a Grammar")
        if self.min_tokens:
            raise SpecError("min_tokens", self.min_tokens, "accepted with a grammar: 0, as the grammar says how long")
        if self.ignore_eos:
            raise SpecError("ignore_eos", True, "accepted with a grammar: false, as the grammar says where to end")

    def check_ids(self, vocab: int) -> None:
        """Raise ``SpecError`` for a token id that a vocabulary of ``vocab`` tokens does not have."""
        for name, ids in (("logit_bias", self.logit_bias), ("stop_ids", self.stop_ids)):
            for each in ids:
                if not 0 <= each < vocab:
                    raise SpecError(name, each, f"accepted: token ids from 0 to {vocab - 1}")

    def choices(self) -> list["Params"]:
        """The ``n`` requests for one output that this one stands for, each with a seed of its own."""
        return [
            replace(self, n=1, seed=None if self.seed is None else (self.seed + index) % 2**64)
            for index in range(self.n)
        ]

    def to_map(self) -> dict[str, Any]:
        """The fields that are not at their default, as values that msgpack and JSON carry."""
        names = [each.name for each in fields(self)]
        plain = {name: getattr(self, name) for name in names if getattr(self, name) != getattr(DEFAULT, name)}
        if self.grammar is not None:
            plain["grammar"] = {"kind": self.grammar.kind, "text": self.grammar.text}
        if self.logit_bias:
            plain["logit_bias"] = [list(pair) for pair in self.logit_bias.items()]
        return plain

    @classmethod
    def from_map(cls, value: Mapping[str, Any]) -> "Params":
        """The parameters that ``to_map`` wrote; a field that is unknown raises ``SpecError``."""
        names = [each.name for each in fields(cls)]
        for name in value:
            if name not in names:
                raise SpecError("params", name, f"accepted: {', '.join(names)}")
        given = dict(value)
        if given.get("grammar") is not None:
            given["grammar"] = Grammar.read(given["grammar"])
        if "logit_bias" in given:
            given["logit_bias"] = dict(given["logit_bias"])
        for name in ("stop", "stop_ids"):
            if isinstance(given.get(name), list):
                given[name] = tuple(given[name])
        return cls(**given)


def _number(name: str, value: object, least: float, most: float, *, above: bool = False) -> None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not good or not least <= float(value) <= most or (above and value == least):  # type: ignore[arg-type]
        start = f"above {least:g}" if above else f"{least:g} or more"
        raise SpecError(
            name, value, f"accepted: a number, {start}" + (f", at most {most:g}" if most < math.inf else "")
        )


def _whole(name: str, value: object, least: int, most: int | None = None) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least or (most is not None and value > most):
        upper = "or more" if most is None else f"to {most}"
        raise SpecError(name, value, f"accepted: a whole number, {least} {upper}")


def _each(name: str, values: Sequence[object], kind: type) -> None:
    empty = "" if kind is str else None
    if not isinstance(values, tuple) or not all(type(each) is kind and each != empty for each in values):
        raise SpecError(name, values, "accepted: " + ("strings that are not empty" if kind is str else "token ids"))


def _biases(biases: Mapping[int, float]) -> None:
    if not isinstance(biases, Mapping) or not all(type(each) is int for each in biases):
        raise SpecError("logit_bias", biases, "accepted: a map from token ids to numbers")
    for bias in biases.values():
        _number("logit_bias", bias, -LARGEST_BIAS, LARGEST_BIAS)


DEFAULT = Params()
