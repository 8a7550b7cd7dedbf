"""Structured output: what a request's tokens must spell, and which tokens may come next.

A grammar is compiled once per tokenizer and copied for each request (llguidance: Earley parser over a lazily built
lexer, token masks from a trie of the vocabulary).
"""

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer
from numpy.typing import NDArray

from twofold.errors import SpecError

Kind = Literal["json_schema", "json_object", "regex", "choice", "lark"]
WHITESPACE = r"( |\n {0,40})?"
"""Between two JSON tokens: enough to indent, bounded so that a small model cannot write spaces for ever."""

KEPT_GRAMMARS = 64
START_FUEL, STEP_FUEL = 200_000, 50_000
"""What llguidance may spend on a grammar before the first token, and on each: some tens of milliseconds, in which no
other request gets a token. A regular expression such as (a{1000}){900} asks for seconds, and is refused instead.
"""
SHOWN = 100
QUIET = 0
WORD_BITS = 32


@dataclass(frozen=True)
class Grammar:
    """A language that the output must belong to, as plain text.

    ``text`` is a JSON schema, a regular expression (Rust syntax), a JSON list of strings, empty for any JSON
    object, or llguidance's dialect of Lark. Make one with the class methods: they raise ``SpecError`` for what cannot
    be compiled.
    """

    kind: Kind
    text: str = ""

    @classmethod
    def json_schema(cls, schema: Mapping[str, Any] | str) -> "Grammar":
        """Output is JSON that is valid under ``schema``."""
        return _checked(cls("json_schema", schema if isinstance(schema, str) else json.dumps(schema)))

    @classmethod
    def json_object(cls) -> "Grammar":
        """Output is any JSON object."""
        return cls("json_object")

    @classmethod
    def regex(cls, pattern: str) -> "Grammar":
        """The whole output matches ``pattern``."""
        return _checked(cls("regex", pattern))

    @classmethod
    def choice(cls, choices: Sequence[str]) -> "Grammar":
        """Output is one of ``choices``."""
        if not choices or not all(isinstance(each, str) and each for each in choices):
            raise SpecError("choice", choices, "accepted: a list of strings that are not empty")
        return _checked(cls("choice", json.dumps(list(choices), ensure_ascii=False)))

    @classmethod
    def lark(cls, text: str) -> "Grammar":
        """Output belongs to the grammar ``text``, which is in llguidance's dialect of Lark."""
        return _checked(cls("lark", text))

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> "Grammar":
        """The grammar of a map with ``kind`` and ``text``, unchecked until it is compiled."""
        kinds = get_args(Kind)
        text = value.get("text", "")
        if value.get("kind") not in kinds or not isinstance(text, str) or not set(value) <= {"kind", "text"}:
            raise SpecError("grammar", dict(value), f"accepted: kind ({', '.join(kinds)}) and text")
        return cls(value["kind"], text)

    def source(self) -> str:
        """The grammar in the notation of llguidance; ``SpecError`` if it is not even JSON where it should be."""
        match self.kind:
            case "regex":
                return LLMatcher.grammar_from_regex(self.text)
            case "choice":
                return LLMatcher.grammar_from_regex("|".join(map(_literal, json.loads(self.text))))
            case "json_object":
                return _json_source('{"type": "object"}')
            case "json_schema":
                return _json_source(self.text)
            case "lark":
                return self.text


class Matcher:
    """How far one request has come in its grammar."""

    def __init__(self, state: LLMatcher) -> None:
        self._state = state

    def allow(self, words: NDArray[np.int32]) -> None:
        """Fill ``words`` (int32, 32 tokens each, lowest bit first) with the tokens that may come next.

        None may when the grammar takes more to follow than the matcher spends; it would say that the output has ended.
        """
        self._state.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)
        if self._state.is_error():
            words.fill(0)

    def advance(self, token: int) -> bool:
        """Take ``token``; false, now and ever after, if the grammar does not allow it."""
        return self._state.consume_token(token)

    def complete(self) -> bool:
        """Whether the output so far belongs to the language."""
        return self._state.is_accepting()


class Grammars:
    """Compiles grammars for one tokenizer and keeps the latest of them.

    ``tokenizer`` is the text of a tokenizer.json, ``vocab`` the width of the logits, ``ends`` the ids that end an
    output. Building it takes about a second for a large vocabulary.
    """

    def __init__(self, tokenizer: str, vocab: int, ends: Sequence[int]) -> None:
        if not ends:
            raise SpecError("ends", ends, "accepted: at least one id that ends an output")
        self._tokenizer = LLTokenizer(tokenizer, n_vocab=vocab, eos_token=sorted(ends))
        self._compiled: OrderedDict[Grammar, LLMatcher] = OrderedDict()
        self.words = -(-vocab // WORD_BITS)

    def matcher(self, grammar: Grammar) -> Matcher:
        """A matcher at the start of ``grammar``; ``SpecError`` if it cannot be compiled."""
        if grammar not in self._compiled:
            limits = LLParserLimits(initial_lexer_fuel=START_FUEL, step_lexer_fuel=STEP_FUEL)
            state = LLMatcher(self._tokenizer, grammar.source(), log_level=QUIET, limits=limits)
            first = state.deep_copy()
            first.compute_bitmask()
            if first.is_error():
                raise _refused(grammar, first.get_error())
            self._compiled[grammar] = state
            if len(self._compiled) > KEPT_GRAMMARS:
                self._compiled.popitem(last=False)
        self._compiled.move_to_end(grammar)
        return Matcher(self._compiled[grammar].deep_copy())


def _literal(text: str) -> str:
    return "".join(letter if letter.isalnum() else f"\\x{{{ord(letter):X}}}" for letter in text)


def _json_source(schema: str) -> str:
    try:
        return LLMatcher.grammar_from_json_schema(schema, overrides={"whitespace_pattern": WHITESPACE})
    except ValueError as error:
        raise _refused(Grammar("json_schema", schema), str(error)) from error


def _checked(grammar: Grammar) -> Grammar:
    try:
        problem = LLMatcher.validate_grammar(grammar.source())
    except UnicodeEncodeError as error:
        raise _refused(grammar, "not Unicode text") from error
    if problem and not problem.startswith("WARNING"):
        raise _refused(grammar, problem)
    return grammar


def _refused(grammar: Grammar, problem: str) -> SpecError:
    lines = [line.strip() for line in problem.splitlines() if line.strip()]
    reason = next((line for line in lines if line.startswith("error:")), lines[0])
    shown = grammar.text if len(grammar.text) <= SHOWN else grammar.text[:SHOWN] + "..."
    return SpecError(grammar.kind, shown, f"accepted: what compiles ({reason})")
