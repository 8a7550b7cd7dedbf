"""Errors as OpenAI writes them: one object with a message, a type, the parameter at fault and a code."""

from collections.abc import Mapping
from typing import Any

from twofold.errors import SpecError

INVALID, AUTHENTICATION, LIMITED = "invalid_request_error", "authentication_error", "rate_limit_error"
UNAVAILABLE, SERVER = "service_unavailable_error", "server_error"


class ServeError(Exception):
    """The service cannot start or go on; its text is one line for the operator.

    ``refused`` says that what the operator asked for is at fault, not the service.
    """

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


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
