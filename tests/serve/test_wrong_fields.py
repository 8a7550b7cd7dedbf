"""Errors name the field in the client's words, and say what it should be."""

import pytest
from pydantic import ValidationError

from twofold.serve.chat_schema import ChatRequest
from twofold.serve.completion_schema import CompletionRequest
from twofold.serve.wrong_fields import from_validation

GOOD = {"messages": [{"role": "user", "content": "x"}]}


def error_of(model, body):
    with pytest.raises(ValidationError) as caught:
        model.model_validate(body)
    error = from_validation(caught.value, model, body)
    assert error.status == 400
    assert "\n" not in error.message
    return error


def refused(**fields):
    return error_of(ChatRequest, GOOD | fields)


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"nope": 1}, "nope", "unknown_parameter"),
        ({"stop": [""]}, "stop.0", "invalid_value"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages.0.content.0.text", None),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", "missing_required_parameter"),
        ({"response_format": {}}, "response_format.type", "missing_required_parameter"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools.0.function.name", "invalid_value"),
        ({"stream_options": {}}, "stream_options", "invalid_value"),
        ({"messages": [{"role": "user", "content": "x", "tool_call_id": "y"}]}, "messages.0.tool_call_id", None),
        ({"guided_regex": "a", "guided_choice": ["a"]}, "guided_regex", "invalid_value"),
    ],
)
def test_the_place_is_the_bodys(fields, param, code):
    error = refused(**fields)
    assert error.param == param
    assert code is None or error.code == code
    assert error.message.startswith(param)


PROMPTS = [
    (5, "prompt: it should be a valid string or a valid list"),
    ({}, "prompt: it should be a valid string or a valid list"),
    ("", "prompt: String should have at least 1 character"),
    ([], "prompt: List should have at least 1 item, not 0"),
    ([1.5], "prompt.0: it should be a valid integer or a valid string or a valid list"),
    ([-1], "prompt.0: it should be greater than or equal to 0"),
    ([1, 2, "x"], "prompt.2: it should be a valid integer"),
    (["x", 1], "prompt.1: it should be a valid string"),
    ([[1], [2, "x"]], "prompt.1.1: it should be a valid integer"),
    (["x"] * 1025, "prompt: List should have at most 1024 items, not 1025"),
    ([[1]] * 1025, "prompt: List should have at most 1024 items, not 1025"),
    ([[1], []], "prompt.1: List should have at least 1 item, not 0"),
]


@pytest.mark.parametrize(("prompt", "message"), PROMPTS)
def test_a_prompt_is_many_things(prompt, message):
    assert error_of(CompletionRequest, {"prompt": prompt}).message == message


UNIONS = [
    ({"stop": 5}, "stop: it should be a valid string or a valid list"),
    ({"stop": ["a"] * 17}, "stop: List should have at most 16 items, not 17"),
    ({"tool_choice": 5}, "tool_choice: it should be 'auto', 'none' or 'required' or an object"),
    ({"tool_choice": "any"}, "tool_choice: it should be 'auto', 'none' or 'required'"),
    ({"tool_choice": {"type": "function"}}, "tool_choice.function is required"),
    ({"guided_json": 5}, "guided_json: it should be an object or a valid string"),
    ({"response_format": "json"}, "response_format: it should be an object"),
    (
        {"response_format": {"type": "xml"}},
        "response_format.type: it should be one of 'text', 'json_object', 'json_schema'",
    ),
    (
        {"messages": [{"role": "user", "content": 5}]},
        "messages.0.content: it should be a valid string or a valid list",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
        "messages.0.content.0.type: it should be 'text'",
    ),
    ({"structured_outputs": {"json": 5}}, "structured_outputs.json: it should be an object or a valid string"),
    ({"stream_options": 5}, "stream_options: it should be an object"),
]


@pytest.mark.parametrize(("fields", "message"), UNIONS)
def test_what_a_union_accepts_is_told(fields, message):
    tools = {"tools": [{"type": "function", "function": {"name": "f"}}]} if "tool_choice" in fields else {}
    assert refused(**fields, **tools).message == message


def test_a_slip_of_the_pen_is_guessed():
    assert "did you mean max_tokens?" in refused(max_token=1).message


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"prompt": [-1] * 100_000}, "prompt.0"),
        ({"prompt": "x", **{f"x{n}": n for n in range(100_000)}}, None),
        ({"prompt": "x", "logit_bias": {str(n): "x" for n in range(100_000)}}, "logit_bias"),
        ({"prompt": "x", "guided_choice": ["a"] * 70_000}, "guided_choice"),
    ],
    ids=["prompt", "fields", "logit_bias", "guided_choice"],
)
def test_a_body_full_of_errors_has_few(body, param):
    with pytest.raises(ValidationError) as caught:
        CompletionRequest.model_validate(body)
    assert caught.value.error_count() < 10
    assert from_validation(caught.value, CompletionRequest, body).param == param
