"""The choices of one HTTP request under way: tokens come in from the worker, pieces of text go out."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from types import TracebackType
from typing import NamedTuple, Self

from twofold.engine.stream import Stream
from twofold.serve.errors import SERVER, ApiError
from twofold.serve.flight import Arrival, Flight
from twofold.serve.life import Life
from twofold.serve.logs import log
from twofold.serve.protocol import Item, Logprob


class Piece(NamedTuple):
    """What one choice has got: text that may be empty, the tokens behind it, and at its end why it ended."""

    choice: int
    text: str
    tokens: list[int]
    logprobs: list[Logprob]
    finish: str | None


class Choice:
    """One flight with its text and its times. A token of ``unsaid`` that ends it does not show in the text."""

    def __init__(self, flight: Flight, stream: Stream, life: Life, unsaid: Collection[int] = ()) -> None:
        self.flight, self.life, self._unsaid = flight, life, frozenset(unsaid)
        self._stream = stream
        self.ended = False
        self.finish: str | None = None
        self.times: dict[str, float] | None = None

    def take(self, item: Item) -> Piece:
        """Turn what has come into a piece; a stop string ends the choice before the worker does."""
        tokens, finish = item["tokens"], item["finish"]
        self.life.got(len(tokens))
        ended = finish == "stop" and bool(tokens) and tokens[-1] in self._unsaid
        text = "".join(map(self._stream.push, tokens[:-1] if ended else tokens))
        if finish is not None:
            text += self._stream.finish()
        if self._stream.stopped:
            finish = "stop"
        if finish is not None:
            self.ended, self.finish = True, finish
            self.times = item.get("times")
        return Piece(self.flight.index, text, tokens, item.get("logprobs") or [], finish)


class Generation:
    """Use it as a context, whose end aborts what is still under way.

    ``submit`` and ``abort`` hand flights to the worker; ``deadline_s`` is in the time of the event loop.
    """

    def __init__(
        self,
        choices: list[Choice],
        inbox: "asyncio.Queue[Arrival]",
        submit: Callable[[Flight], None],
        abort: Callable[[Flight], None],
        deadline_s: float | None,
    ) -> None:
        self._choices = {choice.flight.index: choice for choice in choices}
        self._inbox, self._submit, self._abort, self._deadline = inbox, submit, abort, deadline_s

    def __enter__(self) -> Self:
        for choice in self._choices.values():
            choice.life.begin()
            self._submit(choice.flight)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for choice in self._choices.values():
            if not choice.ended:
                self._abort(choice.flight)
            choice.life.end("error" if isinstance(error, ApiError) and error.status >= 500 else "abort")

    @property
    def choices(self) -> list[Choice]:
        """All choices, in the order of their index."""
        return list(self._choices.values())

    @property
    def arrived_s(self) -> float:
        """When the request came, by ``time.perf_counter``."""
        return self._choices[0].life.arrived_s

    @property
    def generated(self) -> int:
        """Tokens so far, of all choices."""
        return sum(choice.life.tokens for choice in self._choices.values())

    @property
    def ttft_s(self) -> float | None:
        """The earliest first token of all choices, from arrival."""
        times = [choice.life.ttft_s for choice in self._choices.values()]
        return min((time for time in times if time is not None), default=None)

    @property
    def times(self) -> dict[str, float] | None:
        """Where the time of the first choice went, as far as the worker has told; seconds."""
        return self._choices[0].times

    async def pieces(self) -> AsyncIterator[Piece]:
        """The pieces of all choices as they come, until each has ended. Raises ApiError when one cannot."""
        under_way = len(self._choices)
        while under_way:
            arrival = await self._next()
            choice = self._choices[arrival.flight.index]
            if choice.ended:
                continue
            if isinstance(arrival.item, ApiError):
                raise arrival.item
            piece = choice.take(_checked(arrival.item, arrival.flight.bound_by))
            if piece.finish is not None:
                under_way -= 1
                choice.life.end(piece.finish, choice.times)
                self._abort(arrival.flight)
            yield piece

    async def _next(self) -> Arrival:
        try:
            async with asyncio.timeout_at(self._deadline):
                return await self._inbox.get()
        except TimeoutError:
            raise _late() from None


def _late() -> ApiError:
    return ApiError(408, "the deadline has passed", kind="timeout_error", code="deadline_exceeded")


def _checked(item: Item, bound_by: str | None) -> Item:
    """The item, unless it says that the engine could not go on; then ApiError.

    An answer that a field binds can come to where no token of the model goes on as the field wants.
    """
    if item["finish"] == "abort":
        raise _late()
    if item["finish"] != "error":
        return item
    if item.get("refused"):
        raise ApiError(400, item["message"], code="invalid_value")
    log("engine failed", request=item["id"], message=item.get("message"))
    if bound_by is not None:
        message = f"{bound_by}: no token goes on as it wants: it is too much to follow, or spells special tokens"
        raise ApiError(400, message, param=bound_by, code="invalid_value")
    raise ApiError(500, "the engine failed on this request", kind=SERVER, code="engine_error")
