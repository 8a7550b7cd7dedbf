"""Replies as JSON, and what every error becomes on its way out."""

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from twofold.serve.errors import SERVER, ApiError
from twofold.serve.stream import CLIENT_LEFT, to_json

CODES = {404: "not_found", 405: "method_not_allowed"}


class JsonReply(Response):
    """A JSON body."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The body in bytes."""
        return to_json(content)


def error_reply(error: ApiError) -> JsonReply:
    """The reply that tells a client of its error."""
    return JsonReply(error.body(), status_code=error.status, headers=error.headers)


async def on_api_error(request: Request, error: Exception) -> Response:
    """An error of ours."""
    assert isinstance(error, ApiError)
    request.state.log["code"] = error.code
    return error_reply(error)


async def on_http_error(request: Request, error: Exception) -> Response:
    """An unknown path, or a method that a path does not have."""
    assert isinstance(error, HTTPException)
    text = f"{request.method} {request.url.path}: {error.detail.lower()}"
    return error_reply(ApiError(error.status_code, text, code=CODES.get(error.status_code), headers=error.headers))


async def on_client_left(request: Request, error: Exception) -> Response:
    """Nobody reads this reply; the log has its status."""
    return Response(status_code=CLIENT_LEFT)


def defect() -> ApiError:
    """A defect of the server: its trace goes to the log, and only there."""
    message = "the server failed on this request; its log has more under the X-Request-Id"
    return ApiError(500, message, kind=SERVER, code="internal_error")
