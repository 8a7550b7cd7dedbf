"""Reading the JSON body of a request, within limits of size and time."""

import asyncio
from typing import Any, TypeVar

import pydantic_core
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from twofold.serve.errors import ApiError
from twofold.serve.settings import Settings
from twofold.serve.stream import ClientLeftError
from twofold.serve.wrong_fields import from_validation

M = TypeVar("M", bound=BaseModel)
JSON_TYPE = "application/json"
LONG_BODY = 1 << 16
"""Bytes from which on a body is checked in a thread, so that nobody else waits for it."""


async def read_body(request: Request, model: type[M], settings: Settings) -> M:
    """The body as ``model``. Raises ApiError: 415 for another type, 413 when longer, 408 when slow, 400 when wrong."""
    kind = request.headers.get("content-type", JSON_TYPE).partition(";")[0].strip().lower()
    if kind != JSON_TYPE:
        raise ApiError(415, f"the body is {JSON_TYPE}", code="unsupported_media_type")
    try:
        async with asyncio.timeout(settings.read_within_s):
            data = await _read(request, settings.max_body_bytes)
    except TimeoutError:
        message = f"the body did not come within {settings.read_within_s:g} s"
        raise ApiError(408, message, code="body_timeout") from None
    except ClientDisconnect:
        raise ClientLeftError from None
    return parse_body(data, model) if len(data) < LONG_BODY else await asyncio.to_thread(parse_body, data, model)


def parse_body(data: bytes, model: type[M]) -> M:
    """Read and check these bytes; ApiError 400 names the first field that is wrong."""
    try:
        value: Any = pydantic_core.from_json(data, allow_inf_nan=False)
    except ValueError:
        raise ApiError(400, "the body is not JSON", code="invalid_json") from None
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise from_validation(error, model, value) from None


async def _read(request: Request, max_bytes: int) -> bytes:
    too_long = ApiError(413, f"the body is longer than {max_bytes} bytes", code="body_too_large")
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > max_bytes:
        raise too_long
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > max_bytes:
            raise too_long
        parts.append(part)
    return b"".join(parts)
