import dataclasses
import json
import math

import pytest

from twofold.engine.grammar import Grammar
from twofold.engine.params import Params
from twofold.errors import SpecError

BAD = {
    "temperature": [-0.1, math.nan, math.inf, "1", True],
    "top_k": [-2, 1.5, True],
    "top_p": [0.0, 1.1, -1],
    "min_p": [-0.1, 1.5],
    "seed": ["x", 2**64, 0.5],
    "repetition_penalty": [0.0, -1.0, math.inf],
    "presence_penalty": [2.1, -2.1],
    "frequency_penalty": [2.1, math.nan],
    "logit_bias": [{1: 101}, {"1": 1.0}, {1: math.nan}, [1]],
    "stop": [("",), "end", (1,), ["end"]],
    "stop_ids": [("1",), (True,), 5],
    "include_stop": [1, None],
    "max_tokens": [0, -1, 2.0],
    "min_tokens": [-1, 9],
    "ignore_eos": ["no"],
    "logprobs": [3],
    "top_logprobs": [21, -1],
    "n": [0, 129],
    "grammar": ["{}"],
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in BAD.items() for value in values])
def test_what_is_not_accepted_is_named(field, value):
    with pytest.raises(SpecError) as caught:
        Params(**{"max_tokens": 8, field: value})
    assert caught.value.field == field
    assert "\n" not in str(caught.value)


def test_every_field_is_checked():
    assert set(BAD) == {each.name for each in dataclasses.fields(Params)}


def test_likeliest_tokens_are_reported_only_with_logprobs():
    with pytest.raises(SpecError, match="unless logprobs"):
        Params(top_logprobs=2)
    assert Params(logprobs=True, top_logprobs=20).top_logprobs == 20


@pytest.mark.parametrize("field", [{"min_tokens": 1}, {"ignore_eos": True}])
def test_a_grammar_says_itself_where_to_end(field):
    with pytest.raises(SpecError, match="with a grammar"):
        Params(grammar=Grammar.json_object(), **field)


@pytest.mark.parametrize("field", [{"logit_bias": {100: 1.0}}, {"stop_ids": (-1,)}])
def test_ids_must_be_in_the_vocabulary(field):
    params = Params(**field)
    params.check_ids(101) if "logit_bias" in field else None
    with pytest.raises(SpecError, match=next(iter(field))):
        params.check_ids(100)


def test_choices_have_seeds_of_their_own():
    choices = Params(n=3, seed=2**64 - 1, top_k=5).choices()
    assert [each.seed for each in choices] == [2**64 - 1, 0, 1]
    assert {(each.n, each.top_k) for each in choices} == {(1, 5)}
    assert [each.seed for each in Params(n=2).choices()] == [None, None]


@pytest.mark.parametrize(
    "params",
    [
        Params(),
        Params(temperature=0.5, logit_bias={3: -1.5}, stop=("a", "b"), stop_ids=(4,), max_tokens=5, seed=-1),
        Params(grammar=Grammar.json_schema({"type": "integer"}), n=2, logprobs=True, top_logprobs=3),
    ],
)
def test_the_wire_gives_back_what_was_sent(params):
    assert Params.from_map(params.to_map()) == params
    assert Params.from_map(json.loads(json.dumps(params.to_map()))) == params


def test_the_wire_carries_only_what_is_set():
    assert Params().to_map() == {}
    assert Params(top_k=3).to_map() == {"top_k": 3}


def test_unknown_fields_on_the_wire_are_named():
    with pytest.raises(SpecError, match="temprature"):
        Params.from_map({"temprature": 1})
