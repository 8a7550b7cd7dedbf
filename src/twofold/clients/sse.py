"""Server-sent events, parsed as the HTML standard says (section 9.2.6), from pieces cut anywhere."""

from typing import NamedTuple

BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One event: its type (``message`` where none was given) and its data."""

    kind: str
    data: str


class Events:
    """The parser of one stream. An event that the end of the stream cuts off is never given."""

    def __init__(self) -> None:
        self._rest = b""
        self._after_return = False
        self._at_start = True
        self._kind = b""
        self._data: list[bytes] = []

    def push(self, piece: bytes) -> list[Event]:
        """The events that ``piece`` completes, in order."""
        if not piece:
            return []
        if b"\r" in piece or self._after_return:
            piece = self._with_line_feeds(piece)
        *lines, self._rest = (self._rest + piece).split(b"\n")
        return [event for line in lines if (event := self._line(line)) is not None]

    def _with_line_feeds(self, piece: bytes) -> bytes:
        ends_in_return = piece.endswith(b"\r")
        if self._after_return:
            piece = piece.removeprefix(b"\n")
        self._after_return = ends_in_return
        return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _line(self, line: bytes) -> Event | None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(BOM)
        if not line:
            return self._dispatched()
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        elif field == b"event":
            self._kind = value.removeprefix(b" ")
        return None

    def _dispatched(self) -> Event | None:
        kind, data = self._kind, self._data
        self._kind, self._data = b"", []
        if not data:
            return None
        return Event(kind.decode(errors="replace") or "message", b"\n".join(data).decode(errors="replace"))
