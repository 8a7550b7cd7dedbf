"""HTTP/1.1 on one connection: uvicorn's protocol, with bounds on all that is not a body."""

import asyncio
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from twofold.serve.errors import ApiError
from twofold.serve.stream import to_json

HEAD_BYTES = 64 << 10
FRAMING_PER_BYTE = 8
"""Chunks of one byte need five more each."""
LINGER_S = 2.0
"""So long what still comes is read and dropped after a refusal: closed at once, the refusal might not arrive."""


class BoundedHttp(HttpToolsProtocol):
    """A request line with headers takes at most ``HEAD_BYTES``, and comes within ``head_within_s``.

    What goes beyond, and what is not HTTP, is answered as all else, with an OpenAI error object; then the connection
    closes. Trailers and the sizes of chunks may take as much again, and in proportion to the body.
    """

    head_within_s = 60.0
    _under_way = False
    _head = _framing = _body = 0
    _late: asyncio.TimerHandle | None = None
    _refusal: ApiError | None = None
    _lingers = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A request is expected from now on."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is expected any more."""
        self._expect_nothing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless it has become too much."""
        if self._lingers:
            return
        under_way = self._under_way
        super().data_received(data)
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
        self._expect_nothing()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body, which is bounded where it is read."""
        self._framing -= len(body)
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._under_way = False
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Say why this connection ends, unless an answer is under way on it."""
        error = self._refusal or ApiError(400, "this is not HTTP/1.1", code="invalid_http")
        if not self._is_answering():
            body = to_json(error.body())
            head = (
                f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
            self.transport.write_eof()
            self._lingers = True
            self.loop.call_later(LINGER_S, self.transport.close)
        else:
            self.transport.close()

    def _count_head(self, size: int) -> None:
        self._head += size
        if self._head > HEAD_BYTES:
            self._refusal = _too_long()
            raise self._refusal

    def _expect_head(self) -> None:
        self._late = self.loop.call_later(self.head_within_s, self._is_late)

    def _expect_nothing(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _is_late(self) -> None:
        """Nothing is read while an answer is given, so the next request is not late before it is."""
        if self._is_answering():
            self._expect_head()
        else:
            message = f"the headers did not come within {self.head_within_s:g} s"
            self._refuse(ApiError(408, message, code="headers_timeout"))

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse(self, error: ApiError) -> None:
        self._refusal = error
        self.send_400_response(error.message)


def _too_long() -> ApiError:
    return ApiError(431, f"request line and headers take at most {HEAD_BYTES} bytes", code="headers_too_large")
