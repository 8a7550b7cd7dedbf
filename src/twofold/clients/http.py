"""HTTP/1.1 as a load generator needs it: many streams on one core, every piece stamped when it is read.

A token that is streamed costs 18 µs of the client's core here, 38 with aiohttp and 90 with httpx (64 streams at 50
tokens/s on Zen 3), and a short exchange 0.2 ms instead of 1 to 3 ms. Load is often made on the machine that serves,
so what the client spends the server lacks.
"""

import asyncio
import json
import os
import ssl
import time
from typing import Any, NamedTuple, Protocol, cast

import httptools

from twofold.clients.target import Target

IDLE_S = 2.0
"""Servers close idle connections (uvicorn after 5 s), so that an older one may be closing while we write to it."""
LONGEST_MESSAGE = 200


class AnswerError(Exception):
    """An answer that did not come: ``connect``, ``disconnect``, ``timeout``, ``malformed`` or ``http N``, and why."""

    def __init__(self, kind: str, message: str) -> None:
        self.kind, self.message = kind, " ".join(message.split())[:LONGEST_MESSAGE]
        super().__init__(f"{self.kind}: {self.message}")


class Reply(NamedTuple):
    """A whole answer; ``body`` is empty where a sink took it."""

    status: int
    body: bytes

    def json(self) -> Any:
        """The body as JSON; AnswerError where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            raise AnswerError("malformed", f"not JSON: {self.body[:60]!r}") from None

    def error(self) -> AnswerError:
        """The failure that an answer other than 200 stands for, with the server's message."""
        try:
            written = json.loads(self.body)
        except ValueError:
            written = {}
        return AnswerError(f"http {self.status}", error_message(written) or self.body.decode(errors="replace"))


def error_message(written: Any) -> str | None:
    """What the error object of an answer says; None where there is none."""
    found = written.get("error", written.get("message", written.get("detail"))) if isinstance(written, dict) else None
    if isinstance(found, dict):
        found = found.get("message", found)
    return None if found is None else str(found)


class Sink(Protocol):
    """Who is told when a request was written, and gets each piece of a body of status 200. ``stamp`` is in seconds."""

    def sent(self, stamp: float) -> None:
        """The request has been handed to the socket."""

    def body(self, stamp: float, piece: bytes) -> None:
        """A piece of the body that was read at ``stamp``."""


class Whole:
    """A sink that keeps the body."""

    def __init__(self) -> None:
        self.kept = bytearray()

    def sent(self, stamp: float) -> None:
        """Nothing to do."""

    def body(self, stamp: float, piece: bytes) -> None:
        """Keep it."""
        self.kept += piece


class Connection(asyncio.Protocol):
    """One connection, which carries one exchange at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._lost = False
        self._done: asyncio.Future[bool] | None = None
        self._stamp, self._status, self._until_closed = 0.0, 0, True
        self.idle_since = time.perf_counter()

    async def exchange(self, request: bytes, sink: Sink) -> Reply:
        """Send ``request``; its answer, once complete. AnswerError when the connection breaks or speaks no HTTP."""
        assert self._transport is not None
        self._parser = httptools.HttpResponseParser(self)
        self._done = asyncio.get_running_loop().create_future()
        self._sink, self._other = sink, Whole()
        self._stamp, self._status, self._until_closed = 0.0, 0, True
        if self._lost:
            raise AnswerError("disconnect", "closed before the request")
        self._transport.write(request)
        sink.sent(time.perf_counter())
        keep = await self._done
        self.idle_since = time.perf_counter()
        if not keep:
            self.close()
        return Reply(self._status, bytes(self._other.kept))

    @property
    def usable(self) -> bool:
        """Whether another exchange may begin."""
        fresh = time.perf_counter() - self.idle_since < IDLE_S
        return fresh and not self._lost and self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        """Drop the connection at once, which tells the server to stop."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        self._stamp = time.perf_counter()
        if self._done is None or self._done.done():
            return self.close()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail("malformed", f"not HTTP: {error}")
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self._lost = True
        if self._status >= 200 and self._until_closed and exc is None:
            self._complete(False)
        self._fail("disconnect", "the connection closed before the answer ended" if exc is None else str(exc))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser."""
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._until_closed = False

    def on_headers_complete(self) -> None:
        """Called by the parser."""
        self._status = self._parser.get_status_code()

    def on_body(self, piece: bytes) -> None:
        """Called by the parser."""
        (self._sink if self._status == 200 else self._other).body(self._stamp, piece)

    def on_message_complete(self) -> None:
        """Called by the parser."""
        if self._status >= 200:
            self._complete(self._parser.should_keep_alive())

    def _complete(self, keep: bool) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(keep)

    def _fail(self, kind: str, message: str) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(AnswerError(kind, message))


class Client:
    """Exchanges with one server over as many connections as are needed at once, kept alive between them."""

    def __init__(self, target: Target, key: str | None = None, timeout_s: float = 600.0) -> None:
        self.target, self.timeout_s = target, timeout_s
        self._idle: list[Connection] = []
        self._tls = ssl.create_default_context() if target.tls else None
        lines = [f"Host: {target.authority}", "User-Agent: twofold", "Content-Type: application/json"]
        if key is not None:
            lines.append(f"Authorization: Bearer {key}")
        self._head = "\r\n".join(lines)

    async def close(self) -> None:
        """Close the connections that are kept."""
        for connection in self._idle:
            connection.close()
        await asyncio.sleep(0)

    async def get(self, path: str) -> Reply:
        """The answer to GET."""
        return await self._whole("GET", path, b"")

    async def post(self, path: str, body: Any) -> Reply:
        """The answer to POST of ``body`` as JSON."""
        return await self._whole("POST", path, json.dumps(body).encode())

    async def stream(self, path: str, body: bytes, sink: Sink) -> None:
        """POST ``body`` (JSON); a body of status 200 goes to ``sink`` as it comes. AnswerError for any other answer."""
        reply = await self._send("POST", path, body, sink)
        if reply.status != 200:
            raise reply.error()

    async def _whole(self, method: str, path: str, body: bytes) -> Reply:
        whole = Whole()
        reply = await self._send(method, path, body, whole)
        return reply if reply.status != 200 else Reply(200, bytes(whole.kept))

    async def _send(self, method: str, path: str, body: bytes, sink: Sink) -> Reply:
        head = f"{method} {self.target.base}{path} HTTP/1.1\r\n{self._head}\r\nContent-Length: {len(body)}\r\n\r\n"
        try:
            async with asyncio.timeout(self.timeout_s):
                connection = await self._connection()
                try:
                    reply = await connection.exchange(head.encode() + body, sink)
                except BaseException:
                    connection.close()
                    raise
        except TimeoutError:
            raise AnswerError("timeout", f"no whole answer within {self.timeout_s:g} s") from None
        self._idle.append(connection)
        return reply

    async def _connection(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
            connection.close()
        loop, target = asyncio.get_running_loop(), self.target
        try:
            return (await loop.create_connection(Connection, target.host, target.port, ssl=self._tls))[1]
        except OSError as error:
            raise AnswerError("connect", _reason(error)) from None


def _reason(error: OSError) -> str:
    """Why there is no connection, without the addresses that asyncio puts beside it."""
    said = error.strerror or str(error)
    return os.strerror(error.errno) if error.errno and said.startswith("Connect call failed") else said
