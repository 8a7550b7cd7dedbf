"""Text as its tokens come: only what is certain leaves, and a stop string ends it wherever it lies."""

import codecs
from collections.abc import Collection, Sequence
from typing import Protocol


class Pieceful(Protocol):
    """What a stream needs of a tokenizer: the bytes of a token, and the tokens that are no text."""

    hidden: frozenset[int]

    def piece(self, token: int) -> bytes:
        """The bytes of ``token``."""


class Stream:
    """Incremental detokenisation of one output.

    What ``push`` and ``finish`` return, joined, is the decoded text, up to the first stop string to be complete (the
    longest, if several end there). Text is held back while it may be part of a character or of a stop string; bytes
    that are not UTF-8 become U+FFFD. The stop string itself is left out unless ``include_stop``, and is only looked for
    in the text after the first ``min_tokens`` tokens. Special tokens are no text, but for those in ``shown``. Once
    ``stopped``, ``matched`` is the stop string.
    """

    def __init__(
        self,
        tokenizer: Pieceful,
        stop: Sequence[str] = (),
        *,
        include_stop: bool = False,
        min_tokens: int = 0,
        shown: Collection[int] = (),
    ) -> None:
        self._tokenizer, self._stop, self._include_stop = tokenizer, tuple(stop), include_stop
        self._min_tokens, self._tokens = min_tokens, 0
        self._hidden = tokenizer.hidden.difference(shown)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._longest = max(map(len, self._stop), default=0)
        self._held = ""
        self.stopped = False
        self.matched: str | None = None

    def push(self, token: int) -> str:
        """Take one more token; the text that has become certain. Nothing comes after a stop string."""
        if self.stopped:
            return ""
        self._tokens += 1
        text = "" if token in self._hidden else self._decoder.decode(self._tokenizer.piece(token))
        return self._certain(text) if text else ""

    def finish(self) -> str:
        """The text that was held back, once there are no more tokens."""
        if self.stopped:
            return ""
        rest = self._certain(self._decoder.decode(b"", final=True))
        rest, self._held = rest + self._held, ""
        return rest

    def _certain(self, text: str) -> str:
        if not self._stop or self._tokens <= self._min_tokens:
            return text
        text = self._held + text
        end, start = self._first_stop(text)
        if end:
            self.stopped, self.matched, self._held = True, text[start:end], ""
            return text[: end if self._include_stop else start]
        kept = len(text) - self._open(text)
        self._held = text[kept:]
        return text[:kept]

    def _first_stop(self, text: str) -> tuple[int, int]:
        found = ((start + len(stop), start) for stop in self._stop if (start := text.find(stop)) >= 0)
        return min(found, default=(0, 0))

    def _open(self, text: str) -> int:
        """Length of the longest end of ``text`` that begins a stop string."""
        for length in range(min(len(text), self._longest - 1), 0, -1):
            end = text[-length:]
            if any(stop.startswith(end) for stop in self._stop):
                return length
        return 0
