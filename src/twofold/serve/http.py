"""HTTP/1.1 on one connection: uvicorn's protocol, with bounds on all that is not a body.

What is wrong between requests, or in the framing of one, is told in its turn: what came whole before is answered.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from http import HTTPStatus

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from twofold.serve.errors import ApiError
from twofold.serve.logs import log
from twofold.serve.stream import to_json
from twofold.serve.unread import Unread

HEAD_BYTES = 64 << 10
FRAMING_PER_BYTE = 8
"""Chunks of one byte need five more each."""
LINGER_S = 2.0
"""So long what still comes is read and dropped after the last answer: closed at once, it might not arrive."""
WAITING = 8
"""Requests behind one that is answered, before no more are read: while nothing is read, nobody sees a client leave."""


class BoundedHttp(HttpToolsProtocol):
    """A request line with headers takes at most ``HEAD_BYTES``, and comes within ``within_s``.

    What goes beyond, and what is not HTTP, is answered as all else, with an OpenAI error object; then the connection
    closes. Trailers and the sizes of chunks may take as much again, and in proportion to the body. Who asks for another
    protocol with ``Upgrade`` is answered in this one, as RFC 9110 (7.8) allows. Who takes nothing of an answer for
    ``within_s`` is left.
    """

    within_s = 60.0
    _under_way = False
    _head = _framing = _body = 0
    _late: asyncio.TimerHandle | None = None
    _refusal: ApiError | None = None
    _lingers = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A request is expected from now on."""
        super().connection_made(transport)
        self._unread = Unread(transport, self.within_s)
        self._open: deque[RequestResponseCycle] = deque()
        self._unfinished: RequestResponseCycle | None = None
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is expected any more, and nobody waits for an answer."""
        self._expect_nothing()
        self._unread.rest()
        for cycle in self._open:
            _leave(cycle)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless it has become too much."""
        if self._refusal is not None or self._lingers:
            return
        self._unset_keepalive_if_required()
        under_way, rest = self._under_way, memoryview(data)
        try:
            while rest:
                rest = self._parsed(rest)
        except httptools.HttpParserError as error:
            self._refuse(_not_http(error))
            return
        if under_way and self._under_way and not self.transport.is_closing():
            self._framing += len(data)
            if self._framing > HEAD_BYTES + FRAMING_PER_BYTE * self._body:
                self._refuse(_too_long())

    def on_message_begin(self) -> None:
        """The first bytes of a request are there."""
        self._under_way = True
        self._head = self._framing = self._body = 0
        if self._late is None:
            self._expect_head()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A part of the request line."""
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer."""
        self._count_head(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The body begins."""
        if self.parser.get_method() == b"CONNECT":
            raise ApiError(400, "CONNECT is for proxies, and this is none", code="invalid_http")
        if self.parser.should_upgrade():
            return
        self._expect_nothing()
        super().on_headers_complete()
        if len(self.pipeline) < WAITING:
            self.flow.resume_reading()
        self.cycle.transport = _Way(self.transport, self._end)  # type: ignore[assignment]
        self._unfinished = self.cycle
        self._open.append(self.cycle)

    def on_body(self, body: bytes) -> None:
        """A part of the body, which is bounded where it is read."""
        self._framing -= len(body)
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        if self.parser.should_upgrade():
            return
        self._under_way, self._unfinished = False, None
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The next answer may begin; after the last one comes what there was to refuse."""
        self._open.popleft()
        if self._lingers:
            return
        super().on_response_complete()
        if self._refusal is not None and not self._open:
            self._say(self._refusal)

    def pause_writing(self) -> None:
        """The client reads more slowly than its answer is written."""
        super().pause_writing()
        self._unread.watch()

    def resume_writing(self) -> None:
        """The client has read."""
        self._unread.rest()
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """No other request has come."""
        self._end()

    def _parsed(self, data: memoryview) -> memoryview:
        """Give the parser these bytes; those that it has left, where it believes that another protocol begins."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
        else:
            return data[:0]
        self._read_head_again()
        return rest

    def _read_head_again(self) -> None:
        """Read the head that has come without its ``Upgrade``, for which the parser skips the body of a request."""
        line = b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        headers = [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.parser.feed_data(b"\r\n".join([line, *headers, b"", b""]))

    def _count_head(self, size: int) -> None:
        self._head += size
        if self._head > HEAD_BYTES:
            raise _too_long()

    def _expect_head(self) -> None:
        self._late = self.loop.call_later(self.within_s, self._is_late)

    def _expect_nothing(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _is_late(self) -> None:
        """The next request is not late while a client waits for answers."""
        if self._open:
            self._expect_head()
        else:
            message = f"the headers did not come within {self.within_s:g} s"
            self._refuse(ApiError(408, message, code="headers_timeout"))

    def _refuse(self, error: ApiError) -> None:
        """Take nothing more, and say why once what came before is answered."""
        self._refusal = error
        self._expect_nothing()
        if self._unfinished is not None and not self._unfinished.response_started:
            self._give_up(self._unfinished)
        if not self._open:
            self._say(error)

    def _give_up(self, cycle: RequestResponseCycle) -> None:
        """Answer nothing to the last request, whose body will never be whole."""
        self._open.pop()
        if self.pipeline and self.pipeline[0][0] is cycle:
            self.pipeline.popleft()
        else:
            _leave(cycle)
        self.cycle = self._open[-1] if self._open else None  # type: ignore[assignment]

    def _say(self, error: ApiError) -> None:
        """The last words on this connection."""
        if self.transport.is_closing():
            return
        log("connection refused", code=error.code, message=error.message)
        body = to_json(error.body())
        head = (
            f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self._linger()

    def _end(self) -> None:
        """Close after the last answer; where its request still comes, take some of that first."""
        if self._unfinished is None:
            self._close()
        elif not self._lingers:
            self._linger()

    def _linger(self) -> None:
        self._lingers = True
        with contextlib.suppress(OSError):
            self.transport.write_eof()
        self.flow.resume_reading()
        self.loop.call_later(LINGER_S, self._close)

    def _close(self) -> None:
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self._unread.watch()


class _Way:
    """The transport as an answer uses it, which closes it with ``end``."""

    def __init__(self, transport: asyncio.Transport, end: Callable[[], None]) -> None:
        self.write, self.is_closing, self.close = transport.write, transport.is_closing, end


def _leave(cycle: RequestResponseCycle) -> None:
    """Tell a request that nobody waits for its answer."""
    cycle.disconnected = True
    cycle.message_event.set()


def _too_long() -> ApiError:
    return ApiError(431, f"request line and headers take at most {HEAD_BYTES} bytes", code="headers_too_large")


def _not_http(error: httptools.HttpParserError) -> ApiError:
    """What the parser has found, or what we have found while it parsed."""
    if isinstance(error.__context__, ApiError):
        return error.__context__
    found = "" if isinstance(error, httptools.HttpParserCallbackError) else f": {error}"
    return ApiError(400, f"this is not HTTP/1.1{found}", code="invalid_http")
