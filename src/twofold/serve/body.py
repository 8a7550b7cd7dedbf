"""Reading the JSON body of a request, within limits of size, of how much is in it, and of time."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import pydantic_core
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from twofold.serve.errors import ApiError
from twofold.serve.service import Service
from twofold.serve.stream import ClientLeftError
from twofold.serve.wrong_fields import from_validation

M = TypeVar("M", bound=BaseModel)
JSON_TYPE, PLAIN = "application/json", "identity"
LONG_BODY = 1 << 16
"""Bytes from which on a body is checked in a thread, so that nobody else waits for it."""
MOST_VALUES, OF_A_LIST = 270_000, 4
"""In one body, in which a list or an object counts for four. The interpreter is held while they are read: for 10 ms.

It is enough for a prompt of 262,144 token ids.
"""
_checking = ThreadPoolExecutor(1, "bodies")


async def read_body(request: Request, model: type[M]) -> M:
    """The body as ``model``. Raises ApiError: 415 for another type, 413 when longer, 408 when slow, 400 when wrong.

    ``request.state.arrived_s`` is when it was there, by ``time.perf_counter``. In a crowd it is read in its turn.
    """
    service: Service = request.app.state.service
    kind = request.headers.get("content-type", JSON_TYPE).partition(";")[0].strip().lower()
    if kind != JSON_TYPE:
        raise ApiError(415, f"the body is {JSON_TYPE}", code="unsupported_media_type")
    if request.headers.get("content-encoding", PLAIN).lower() != PLAIN:
        raise ApiError(415, "the body is not compressed", code="unsupported_media_type")
    try:
        async with asyncio.timeout(service.settings.read_within_s):
            data = await _read(request, service.settings.max_body_bytes)
    except TimeoutError:
        message = f"the body did not come within {service.settings.read_within_s:g} s"
        raise ApiError(408, message, code="body_timeout") from None
    except ClientDisconnect:
        raise ClientLeftError from None
    request.state.arrived_s = time.perf_counter()
    await service.gate.passed()
    if len(data) < LONG_BODY:
        return parse_body(data, model)
    return await asyncio.get_running_loop().run_in_executor(_checking, parse_body, data, model)


def parse_body(data: bytes, model: type[M]) -> M:
    """Read and check these bytes; ApiError 400 names the first field that is wrong, 413 tells of too many values."""
    if values_in(data) > MOST_VALUES:
        message = f"the body holds over {MOST_VALUES} values, with {OF_A_LIST} for each list and object"
        raise ApiError(413, message, code="body_too_large")
    try:
        value: Any = pydantic_core.from_json(data, allow_inf_nan=False)
    except ValueError:
        raise ApiError(400, "the body is not JSON", code="invalid_json") from None
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise from_validation(error, model, value) from None


def values_in(data: bytes) -> int:
    """What this JSON holds, at most: a value for each comma, and ``OF_A_LIST`` for each bracket or brace that opens.

    Those in strings are left out where they would make it too many. What is no JSON holds no more before its flaw.
    """
    most = data.count(b",") + OF_A_LIST * (data.count(b"[") + data.count(b"{"))
    if most <= MOST_VALUES:
        return most
    codes = np.frombuffer(data.replace(rb"\\", b"").replace(rb"\"", b""), np.uint8)
    is_text = np.logical_xor.accumulate(codes == ord('"'))
    commas, opens = codes == ord(","), (codes == ord("[")) | (codes == ord("{"))
    return int(np.count_nonzero(commas & ~is_text) + OF_A_LIST * np.count_nonzero(opens & ~is_text))


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
