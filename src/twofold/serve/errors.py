"""Errors as OpenAI writes them: one object with a message, a type, the parameter at fault and a code."""

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from twofold.errors import SpecError

INVALID, AUTHENTICATION, LIMITED = "invalid_request_error", "authentication_error", "rate_limit_error"
UNAVAILABLE, SERVER = "service_unavailable_error", "server_error"


class ServeError(Exception):
    """The service cannot start or go on; its text is one line for the operator."""


class ApiError(Exception):
    """What a client did, or what happened to its request, as an HTTP status and an OpenAI error object."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = INVALID,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.kind = status, message, kind
        self.param, self.code, self.headers = param, code, dict(headers or {})

    def body(self) -> dict[str, Any]:
        """The object that the client gets."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}


def from_spec(error: SpecError, field: str | None = None) -> ApiError:
    """A value that the engine's own checks refuse; ``field`` is the name that the client gave it."""
    name = field or error.field
    return ApiError(400, f"{name}: {error.accepted}", param=name, code="invalid_value")


def from_validation(error: ValidationError, model: type[BaseModel], body: Any) -> ApiError:
    """The most particular thing that is wrong with a request body, by the name of its field."""
    if not isinstance(body, dict):
        return ApiError(400, "the body is one JSON object", code="invalid_type")
    found = error.errors(include_url=False, include_context=False, include_input=False)
    first = max(found, key=lambda each: len(_path(each["loc"], body, each["type"]).split(".")))
    param = _path(first["loc"], body, first["type"])
    if first["type"] == "extra_forbidden":
        return ApiError(400, _unknown(param, first["loc"], model), param=param, code="unknown_parameter")
    if first["type"] == "missing":
        return ApiError(400, f"{param} is required", param=param, code="missing_required_parameter")
    message = first["msg"].removeprefix("Value error, ").replace("Input should", "it should")
    return ApiError(400, f"{param}: {message}" if param else message, param=param or None, code="invalid_value")


def _path(place: tuple[int | str, ...], body: Any, kind: str) -> str:
    """The place in the words of the body: what pydantic adds for the members of a union is left out."""
    kept: list[str] = []
    value = body
    for number, part in enumerate(place):
        inside = part in value if isinstance(value, dict) else isinstance(value, list) and isinstance(part, int)
        if inside:
            kept.append(str(part))
            value = value[part] if not isinstance(value, list) or int(part) < len(value) else None
        elif kind == "missing" and number == len(place) - 1:
            kept.append(str(part))
    return ".".join(kept)


def _unknown(param: str, place: tuple[int | str, ...], model: type[BaseModel]) -> str:
    close = difflib.get_close_matches(param, model.model_fields, 1) if len(place) == 1 else []
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"{param} is not a field that this server knows{hint}"
