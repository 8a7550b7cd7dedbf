"""What one streamed completion shows: when its tokens came, its text, how it ended."""

import json
from collections.abc import Callable
from typing import Any

from twofold.clients.http import AnswerError, error_message
from twofold.clients.sse import Events

DONE = "[DONE]"


class Answer:
    """The sink of one streamed completion or chat completion (its first choice).

    ``times`` are the stamps (seconds) at which tokens came and ``counts`` how many came at each; ``sent_s`` is None
    until the request was written. A chunk counts as the tokens by which its ``usage`` has grown, where the server says
    so in every chunk, else as one token when it has text. ``timing`` is where the time went, in seconds by part, as a
    server of ours says when it is asked.
    """

    def __init__(self, show: Callable[[str], None] | None = None) -> None:
        self.sent_s: float | None = None
        self.times: list[float] = []
        self.counts: list[int] = []
        self.finish: str | None = None
        self.prompt_tokens: int | None = None
        self.completion_tokens: int | None = None
        self.timing: dict[str, float] | None = None
        self._show, self._events = show, Events()
        self._counted, self._done = 0, False
        self._broken: str | None = None

    def sent(self, stamp: float) -> None:
        """The request was written at ``stamp``."""
        self.sent_s = stamp

    def body(self, stamp: float, piece: bytes) -> None:
        """Read a piece of the stream."""
        for event in self._events.push(piece):
            if event.data == DONE:
                self._done = True
            elif self._broken is None:
                self._read(stamp, event.data)

    def check(self) -> None:
        """AnswerError unless the stream ended as it should, with at least one token."""
        if self._broken is not None:
            raise AnswerError("malformed", self._broken)
        if not self._done and self.finish is None:
            raise AnswerError("disconnect", "the stream ended before the answer did")
        if not self.times:
            raise AnswerError("malformed", "the answer has no tokens")

    @property
    def tokens(self) -> int:
        """Output tokens: as the server says, or as counted."""
        return self._counted if self.completion_tokens is None else self.completion_tokens

    @property
    def counted(self) -> int:
        """Output tokens whose time is known."""
        return self._counted

    def gaps(self) -> list[float]:
        """Seconds between each two tokens that follow one another; tokens that came at once are 0 apart."""
        found = [0.0] * (self.counts[0] - 1) if self.counts else []
        for place in range(1, len(self.times)):
            found.append(self.times[place] - self.times[place - 1])
            found += [0.0] * (self.counts[place] - 1)
        return found

    def _read(self, stamp: float, data: str) -> None:
        try:
            chunk = json.loads(data)
            if not isinstance(chunk, dict):
                raise TypeError
            if chunk.get("error") is not None:
                self._broken = error_message(chunk)
                return
            self._chunk(stamp, chunk)
        except (ValueError, TypeError, KeyError, AttributeError):
            self._broken = f"not a completion chunk: {data[:60]!r}"

    def _chunk(self, stamp: float, chunk: dict[str, Any]) -> None:
        usage, self.timing = chunk.get("usage"), chunk.get("timing") or self.timing
        if usage is not None:
            self.prompt_tokens, self.completion_tokens = int(usage["prompt_tokens"]), int(usage["completion_tokens"])
        for choice in chunk.get("choices", ())[:1]:
            text = _text(choice)
            self.finish = choice.get("finish_reason") or self.finish
            new = int(bool(text)) if usage is None else int(usage["completion_tokens"]) - self._counted
            if new > 0:
                self.times.append(stamp)
                self.counts.append(new)
                self._counted += new
            if text and self._show is not None:
                self._show(text)


def _text(choice: dict[str, Any]) -> str:
    """The text of a choice of a completion, or of a chat completion with what it says of its reasoning."""
    delta = choice.get("delta")
    if delta is None:
        return choice.get("text") or ""
    return (delta.get("reasoning_content") or "") + (delta.get("content") or "")
