"""Errors name the field in the client's words."""

import pytest
from pydantic import ValidationError

from twofold.errors import SpecError
from twofold.serve.chat_schema import ChatRequest
from twofold.serve.errors import ApiError, from_spec, from_validation

GOOD = {"messages": [{"role": "user", "content": "x"}]}


def refused(**fields):
    body = GOOD | fields
    with pytest.raises(ValidationError) as caught:
        ChatRequest.model_validate(body)
    return from_validation(caught.value, ChatRequest, body)


def test_the_object_is_openais():
    assert ApiError(400, "no", param="x", code="y").body() == {
        "error": {"message": "no", "type": "invalid_request_error", "param": "x", "code": "y"}
    }


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"nope": 1}, "nope", "unknown_parameter"),
        ({"stop": [""]}, "stop.0", "invalid_value"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages.0.content.0.text", None),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", "missing_required_parameter"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools.0.function.name", "invalid_value"),
    ],
)
def test_the_place_is_the_bodys(fields, param, code):
    error = refused(**fields)
    assert error.param == param
    assert code is None or error.code == code
    assert error.param.split(".")[0] in error.message


def test_a_slip_of_the_pen_is_guessed():
    assert "did you mean max_tokens?" in refused(max_token=1).message


def test_the_engines_refusal_keeps_what_is_accepted():
    error = from_spec(SpecError("stop_ids", [9], "ids below 5"), "stop_token_ids")
    assert (error.status, error.param, error.message) == (400, "stop_token_ids", "stop_token_ids: ids below 5")
