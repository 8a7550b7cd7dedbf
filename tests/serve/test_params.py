"""Request fields become the engine's parameters."""

import pytest

from twofold.engine.grammar import Grammar
from twofold.serve.chat_schema import ChatRequest
from twofold.serve.completion_schema import CompletionRequest
from twofold.serve.errors import ApiError
from twofold.serve.params import grammar_of, sampling_params

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def completion(**fields):
    return CompletionRequest.model_validate({"prompt": "x", **fields})


def chat(**fields):
    return ChatRequest.model_validate({"messages": [{"role": "user", "content": "x"}], **fields})


def test_every_field_arrives():
    body = completion(
        temperature=0.5, top_p=0.9, top_k=7, min_p=0.1, seed=3, n=2, repetition_penalty=1.1, presence_penalty=0.2,
        frequency_penalty=0.3, logit_bias={"5": 1.5}, stop="z", stop_token_ids=[4], include_stop_str_in_output=True,
        min_tokens=2, ignore_eos=True, logprobs=3,
    )  # fmt: skip
    assert sampling_params(body, 9).to_map() == {
        "temperature": 0.5, "top_p": 0.9, "top_k": 7, "min_p": 0.1, "seed": 3, "n": 2, "repetition_penalty": 1.1,
        "presence_penalty": 0.2, "frequency_penalty": 0.3, "logit_bias": [[5, 1.5]], "stop": ("z",), "stop_ids": (4,),
        "include_stop": True, "min_tokens": 2, "ignore_eos": True, "logprobs": True, "top_logprobs": 3, "max_tokens": 9,
    }  # fmt: skip


def test_logprobs_of_both_kinds():
    assert sampling_params(completion(logprobs=0), 1).logprobs is True
    assert sampling_params(completion(), 1).logprobs is False
    params = sampling_params(chat(logprobs=True, top_logprobs=4), 1)
    assert (params.logprobs, params.top_logprobs) == (True, 4)


@pytest.mark.parametrize(
    ("fields", "grammar"),
    [
        ({}, None),
        ({"response_format": {"type": "text"}}, None),
        ({"response_format": {"type": "json_object"}}, Grammar.json_object()),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}},
            Grammar.json_schema(SCHEMA),
        ),
        ({"guided_json": SCHEMA}, Grammar.json_schema(SCHEMA)),
        ({"guided_regex": "a+"}, Grammar.regex("a+")),
        ({"guided_choice": ["a", "b"]}, Grammar.choice(["a", "b"])),
        ({"structured_outputs": {"json": SCHEMA}}, Grammar.json_schema(SCHEMA)),
        ({"structured_outputs": {"regex": "a"}}, Grammar.regex("a")),
        ({"structured_outputs": {"choice": ["a"]}}, Grammar.choice(["a"])),
        ({"structured_outputs": {"json_object": True}}, Grammar.json_object()),
    ],
)
def test_what_binds_the_answer(fields, grammar):
    assert grammar_of(chat(**fields)) == grammar


@pytest.mark.parametrize("field", ["guided_regex", "guided_json", "structured_outputs", "response_format"])
def test_what_cannot_be_compiled_is_named(field):
    bad = {
        "guided_regex": "(",
        "guided_json": {"type": "nonsense"},
        "structured_outputs": {"regex": "["},
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": 5}}},
    }
    with pytest.raises(ApiError) as refused:
        grammar_of(chat(**{field: bad[field]}))
    assert refused.value.param == field
