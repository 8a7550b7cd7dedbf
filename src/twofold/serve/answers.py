"""What the two generating routes have in common: the run of one request, as a stream of events or as one reply."""

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from twofold.serve.errors import ApiError
from twofold.serve.generation import Generation, Piece
from twofold.serve.replies import JsonReply
from twofold.serve.schema import Sampling, StreamOptions
from twofold.serve.stream import EventStream, event, while_connected
from twofold.serve.told import Told


class Answer(ABC):
    """One request under way. A route says how a piece looks in a stream, and how the whole looks.

    ``prompt_tokens`` are those of all prompts, each counted once.
    """

    kind: str
    chunk_kind: str

    def __init__(self, request_id: str, name: str, body: Sampling, generation: Generation, prompt_tokens: int) -> None:
        self.body, self.generation = body, generation
        self._id, self._name, self._prompt_tokens = request_id, name, prompt_tokens
        self._head = {"id": request_id, "created": int(time.time()), "model": name}
        self._options = body.stream_options or StreamOptions()

    @abstractmethod
    def chunks(self, piece: Piece) -> Iterator[dict[str, Any]]:
        """The ``choices`` entries that a piece brings to a stream: one, none, or several."""

    @abstractmethod
    def choices(self) -> list[dict[str, Any]]:
        """The ``choices`` of the whole reply, from the pieces given to :meth:`collect`."""

    @abstractmethod
    def collect(self, piece: Piece) -> None:
        """Take a piece of the whole reply."""

    async def reply(self, request: Request) -> Response:
        """The response to ``request``: a stream, or a reply once all is there."""
        log: dict[str, Any] = request.state.log
        self._traces, self._headers = request.app.state.service.traces, request.headers
        log |= {"prompt_tokens": self._prompt_tokens, "stream": self.body.stream, **self.body.labels()}
        if self.body.stream:
            return EventStream(self._events(log), self.generation)
        with self.generation:
            return JsonReply(await while_connected(request.receive, self._whole(log)))

    async def _whole(self, log: dict[str, Any]) -> dict[str, Any]:
        try:
            async for piece in self.generation.pieces():
                self.collect(piece)
        except ApiError as error:
            log["code"] = error.code
            raise
        finally:
            self._note(log)
        return {**self._head, "object": self.kind, "choices": self.choices(), **self._account()}

    async def _events(self, log: dict[str, Any]) -> AsyncGenerator[bytes, None]:
        try:
            async for piece in self.generation.pieces():
                chunks = list(self.chunks(piece))
                if chunks:
                    yield b"".join(map(self._event, chunks))
            if self._options.include_usage or self.body.include_timing:
                yield event({**self._head, "object": self.chunk_kind, "choices": [], **self._account()})
        except ApiError as error:
            log["code"] = error.code
            yield event(error.body())
        finally:
            self._note(log)

    def _event(self, choice: dict[str, Any]) -> bytes:
        chunk = {**self._head, "object": self.chunk_kind, "choices": [choice]}
        if self._options.continuous_usage_stats:
            chunk["usage"] = self._usage()
        elif self._options.include_usage:
            chunk["usage"] = None
        return event(chunk)

    def _account(self) -> dict[str, Any]:
        """What it took: tokens, and on request where the time of the first choice went, in seconds."""
        timing = {"timing": self.generation.times} if self.body.include_timing else {}
        return {"usage": self._usage(), **timing}

    def _usage(self) -> dict[str, int]:
        generated = self.generation.generated
        return {
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": generated,
            "total_tokens": self._prompt_tokens + generated,
        }

    def _note(self, log: dict[str, Any]) -> None:
        log |= {"output_tokens": self.generation.generated, "ttft_s": self.generation.ttft_s}
        if self.generation.times is not None:
            log["times"] = self.generation.times
        if self._traces is not None:
            told = Told(
                self.kind, self._name, self._id, self.body, self._prompt_tokens, self.generation, log.get("code")
            )
            self._traces.record(told, self._headers)
