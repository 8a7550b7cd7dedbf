import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import byte_level

from twofold.engine.grammar import KEPT_GRAMMARS, Grammar, Grammars
from twofold.errors import SpecError

BACKEND = byte_level()
END = BACKEND.token_to_id("</s>")
VOCAB = 320
GRAMMARS = Grammars(BACKEND.to_str(), VOCAB, [END])

SCHEMA = {
    "type": "object",
    "properties": {"name": {"enum": ["the", "é"]}, "age": {"type": "integer", "minimum": 0, "maximum": 120}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def test_what_takes_seconds_to_follow_allows_nothing():
    matcher = GRAMMARS.matcher(Grammar.regex("(a{1000}){900}"))
    letters = 0
    while len(allowed(matcher)):
        assert matcher.advance(BACKEND.token_to_id("a"))
        letters += 1
    assert letters <= 1
    assert not matcher.complete()


def allowed(matcher):
    words = np.zeros(GRAMMARS.words, np.int32)
    matcher.allow(words)
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))


def spell(grammar, seed, most=400):
    """A random output of the grammar; near the end the random choice goes for what ends strings and lists."""
    random, matcher, output = np.random.default_rng(seed), GRAMMARS.matcher(grammar), []
    while len(output) < most:
        ids = allowed(matcher)
        closing = [token for token in ids if BACKEND.id_to_token(int(token)) in ('"', "}", "]", "</s>")]
        token = int(random.choice(closing if closing and random.random() < 0.3 else ids))
        assert matcher.advance(token)
        if token == END:
            return BACKEND.decode(output)
        output.append(token)
    return None


def accepts(grammar, text):
    matcher = GRAMMARS.matcher(grammar)
    return all(matcher.advance(token) for token in BACKEND.encode(text, add_special_tokens=False).ids) and (
        matcher.complete()
    )


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**31))
def test_random_outputs_match_their_schema(seed):
    value = json.loads(spell(Grammar.json_schema(SCHEMA), seed))
    assert value["name"] in ("the", "é")
    assert type(value["age"]) is int
    assert 0 <= value["age"] <= 120
    assert set(value) == {"name", "age"}


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**31))
def test_random_objects_are_json(seed):
    text = spell(Grammar.json_object(), seed)
    if text is not None:
        assert isinstance(json.loads(text), dict)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**31))
def test_random_outputs_match_their_pattern(seed):
    pattern = r"the( [a-f]+é){1,2}[0-9]"
    assert re.fullmatch(pattern, spell(Grammar.regex(pattern), seed))


@settings(deadline=None, max_examples=40)
@given(st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=4), st.text(min_size=1, max_size=6))
def test_a_choice_is_what_is_offered_and_nothing_else(choices, other):
    grammar = Grammar.choice(choices)
    assert all(accepts(grammar, each) for each in choices)
    assert accepts(grammar, other) == (other in choices)


def test_spaces_in_json_are_bounded():
    grammar = Grammar.json_object()
    assert accepts(grammar, '{\n    "a": 1,\n    "b": [true, null]\n}')
    assert not accepts(grammar, '{\n\n"a": 1}')
    assert not accepts(grammar, '{   "a": 1}')


def test_matchers_do_not_share_their_place():
    grammar = Grammar.regex("ab")
    first, second = GRAMMARS.matcher(grammar), GRAMMARS.matcher(grammar)
    assert first.advance(BACKEND.token_to_id("a"))
    assert allowed(first).tolist() == [BACKEND.token_to_id("b")]
    assert allowed(second).tolist() == [BACKEND.token_to_id("a")]


def test_a_token_that_is_not_allowed_is_refused_for_good():
    matcher = GRAMMARS.matcher(Grammar.regex("ab"))
    assert not matcher.advance(BACKEND.token_to_id("b"))
    assert not matcher.advance(BACKEND.token_to_id("a"))


def test_special_tokens_and_ids_beyond_the_tokenizer_are_never_allowed():
    ids = allowed(GRAMMARS.matcher(Grammar.regex("(?s).*")))
    assert END in ids
    assert BACKEND.token_to_id("<s>") not in ids
    assert ids.max() < BACKEND.get_vocab_size()


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Grammar.json_schema({"type": "strange"}), "json_schema: .*strange"),
        (lambda: Grammar.json_schema({"$ref": "#/nowhere"}), "json_schema: .*nowhere"),
        (lambda: Grammar.json_schema({"type": "array", "uniqueItems": True}), "json_schema: .*uniqueItems"),
        (lambda: Grammar.json_schema("{nope"), "json_schema: '{nope'"),
        (lambda: Grammar.json_schema("[1]"), "json_schema"),
        (lambda: Grammar.json_schema({"description": "x" * 10_000, "type": "strange"}), "json_schema: .*x{50}"),
        (lambda: Grammar.regex("[a"), "regex: .*unclosed"),
        (lambda: Grammar.regex("(?=a)b"), "regex: .*look-around"),
        (lambda: Grammar.regex("\ud800"), "regex: .*Unicode"),
        (lambda: Grammar.choice([]), "choice"),
        (lambda: Grammar.choice(["a", ""]), "choice"),
        (lambda: Grammar.read({"kind": "cfg", "text": ""}), "grammar: .*json_schema, json_object, regex, choice"),
        (lambda: Grammar.read({"kind": "regex", "txt": ""}), "grammar"),
        (lambda: GRAMMARS.matcher(Grammar("json_schema", '{"type": "strange"}')), "json_schema"),
        (lambda: GRAMMARS.matcher(Grammar("regex", "[a")), "regex"),
        (lambda: Grammars(BACKEND.to_str(), VOCAB, []), "ends"),
    ],
)
def test_what_cannot_be_compiled_is_named_in_one_short_line(make, named):
    with pytest.raises(SpecError, match=named) as caught:
        make()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_old_grammars_are_forgotten_and_compile_again():
    first = Grammar.regex("x0")
    for index in range(KEPT_GRAMMARS + 1):
        GRAMMARS.matcher(Grammar("regex", f"x{index}"))
    assert GRAMMARS.matcher(first).advance(BACKEND.token_to_id("x"))


@pytest.mark.parametrize("grammar", [Grammar.regex(r"[^\s\S]"), Grammar.json_schema({"$ref": "#"})])
def test_a_grammar_that_nothing_matches_is_refused(grammar):
    with pytest.raises(SpecError, match="accepted: what compiles"):
        GRAMMARS.matcher(grammar)


def test_nothing_may_follow_an_output_that_the_grammar_does_not_allow():
    matcher = GRAMMARS.matcher(Grammar.regex("ab"))
    first, other = (BACKEND.encode(text, add_special_tokens=False).ids[0] for text in ("a", "z"))
    assert first in allowed(matcher)
    assert not matcher.advance(other)
    assert not len(allowed(matcher))
