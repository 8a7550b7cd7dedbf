"""Answers under way: server-sent events, and work that ends when its client leaves."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Coroutine
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import pydantic_core
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

T = TypeVar("T")
DONE = b"data: [DONE]\n\n"
CLIENT_LEFT = 499


class ClientLeftError(Exception):
    """The client closed its connection before its answer was ready."""


def event(value: Any) -> bytes:
    """One server-sent event that carries ``value`` as JSON."""
    return b"data: " + to_json(value) + b"\n\n"


def to_json(value: Any) -> bytes:
    """Compact JSON in UTF-8; lone surrogates, which UTF-8 lacks, are escaped, and what is no number is null."""
    try:
        return pydantic_core.to_json(value, inf_nan_mode="null")
    except pydantic_core.PydanticSerializationError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``; when the client leaves first, ``work`` is cancelled and ClientLeftError raised.

    The body of the request must have been read.
    """
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientLeftError
        return task.result()
    finally:
        for ended in (task, gone):
            ended.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(Response):
    """An answer of server-sent events and the mark of their end.

    It is made within the context ``work``, which ends as soon as the client leaves.
    """

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes, None], work: AbstractContextManager[Any]) -> None:
        self._events, self._work = events, work
        self.status_code, self.background, self.body = 200, None, b""
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the head at once and each event as it comes."""
        with contextlib.suppress(ClientLeftError, OSError), self._work:
            await while_connected(receive, self._send_all(send))

    async def _send_all(self, send: Send) -> None:
        async with contextlib.aclosing(self._events) as events:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for data in events:
                await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": DONE, "more_body": False})
