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
    """What one choice has got since the last: text that may be empty, its tokens, and at its end why it ended."""

    choice: int
    text: str
    tokens: list[int]
    logprobs: list[Logprob]
    finish: str | None

    def then(self, next: "Piece") -> "Piece":
        """This piece and the next of the same choice as one."""
        tokens, logprobs = [*self.tokens, *next.tokens], [*self.logprobs, *next.logprobs]
        return Piece(self.choice, self.text + next.text, tokens, logprobs, next.finish)


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
        self._late: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        if self._deadline is not None:
            self._late = asyncio.get_running_loop().call_at(self._deadline, self._is_late)
        for choice in self._choices.values():
            choice.life.begin()
            self._submit(choice.flight)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._late is not None:
            self._late.cancel()
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
        """The pieces of all choices as they come, until each has ended. Raises ApiError when one cannot.

        What has come for a choice while the last piece was told is one piece.
        """
        while not all(choice.ended for choice in self._choices.values()):
            joined: dict[int, Piece] = {}
            arrival: Arrival | None = await self._inbox.get()
            error: ApiError | None = None
            while arrival is not None and error is None:
                error = self._take(arrival, joined)
                arrival = None if self._inbox.empty() else self._inbox.get_nowait()
            for piece in joined.values():
                yield piece
            if error is not None:
                raise error

    def _take(self, arrival: Arrival, joined: dict[int, Piece]) -> ApiError | None:
        """Add what has come to the pieces by choice, or give what is wrong with it."""
        choice, index = self._choices[arrival.flight.index], arrival.flight.index
        if choice.ended:
            return None
        try:
            piece = choice.take(_checked(arrival.item, arrival.flight.bound_by))
        except ApiError as error:
            return error
        joined[index] = joined[index].then(piece) if index in joined else piece
        if piece.finish is not None:
            choice.life.end(piece.finish, choice.times)
            self._abort(arrival.flight)
        return None

    def _is_late(self) -> None:
        for choice in self._choices.values():
            choice.flight.deliver(_late())


def _late() -> ApiError:
    return ApiError(408, "the deadline has passed", kind="timeout_error", code="deadline_exceeded")


def _checked(item: Item | ApiError, bound_by: str | None) -> Item:
    """The item, unless it is or tells of an error; then ApiError.

    An answer that a field binds can come to where no token of the model goes on as the field wants.
    """
    if isinstance(item, ApiError):
        raise item
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
