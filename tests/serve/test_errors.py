"""Errors name the field in the client's words."""

from twofold.errors import SpecError
from twofold.serve.errors import ApiError, from_spec


def test_the_object_is_openais():
    assert ApiError(400, "no", param="x", code="y").body() == {
        "error": {"message": "no", "type": "invalid_request_error", "param": "x", "code": "y"}
    }


def test_the_engines_refusal_keeps_what_is_accepted():
    error = from_spec(SpecError("stop_ids", [9], "ids below 5"), "stop_token_ids")
    assert (error.status, error.param, error.message) == (400, "stop_token_ids", "stop_token_ids: ids below 5")
