"""A conversation of several turns with a chat model."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from twofold.clients.answer import Answer
from twofold.clients.api import served_model
from twofold.clients.http import Client
from twofold.clients.target import Target

PATH = "/v1/chat/completions"
Message = dict[str, str]


class Conversation:
    """The messages so far, which every turn sends whole. ``fields`` go into each request, such as ``temperature``."""

    def __init__(
        self, url: str, model: str | None = None, key: str | None = None, fields: Mapping[str, Any] | None = None
    ) -> None:
        self.target, self.key, self.fields = Target.parse(url), key, dict(fields or {})
        self.system: str | None = None
        self.messages: list[Message] = []
        self.model = asyncio.run(self._model(model))

    async def _model(self, wanted: str | None) -> str:
        client = Client(self.target, self.key)
        try:
            return await served_model(client, wanted)
        finally:
            await client.close()

    def say(self, text: str, show: Callable[[str], None]) -> Answer:
        """Say ``text``; ``show`` gets the answer piece by piece. AnswerError when there is none.

        An answer that KeyboardInterrupt cuts short stays as far as it came; one that failed leaves no trace.
        """
        said: list[str] = []

        def heard(piece: str) -> None:
            said.append(piece)
            show(piece)

        before = len(self.messages)
        self.messages.append({"role": "user", "content": text})
        answer = Answer(heard)
        try:
            asyncio.run(self._stream(answer))
        except KeyboardInterrupt:
            self.messages.append({"role": "assistant", "content": "".join(said)})
            raise
        except BaseException:
            del self.messages[before:]
            raise
        self.messages.append({"role": "assistant", "content": "".join(said)})
        return answer

    def clear(self) -> None:
        """Forget all that was said."""
        self.messages.clear()

    async def _stream(self, answer: Answer) -> None:
        system = [] if self.system is None else [{"role": "system", "content": self.system}]
        asked = {"model": self.model, "messages": [*system, *self.messages], "stream": True}
        options = {"stream_options": {"include_usage": True}}
        client = Client(self.target, self.key)
        try:
            await client.stream(PATH, json.dumps(asked | options | self.fields).encode(), answer)
            answer.check()
        finally:
            await client.close()
