"""What an OpenAI-compatible server is asked: its model, what fields it takes, how many tokens a text has."""

import json
from collections.abc import Mapping
from typing import Any

from twofold.clients.answer import Answer
from twofold.clients.http import AnswerError, Client
from twofold.errors import SpecError
from twofold.spec.embedded import is_embedded

LENGTH_FIELDS = ("ignore_eos", "min_tokens")
PER_CHUNK = "continuous_usage_stats"
OPTIONAL = (*LENGTH_FIELDS, PER_CHUNK)
"""Fields beyond OpenAI's own: two that force the length of an answer, one that counts the tokens of every chunk."""
REFUSED = ("http 400", "http 422")


class Api:
    """Completions of one model of one server. ``taken`` are the fields of OPTIONAL that it takes."""

    def __init__(self, client: Client, model: str, chat: bool = False) -> None:
        self.client, self.model, self.chat = client, model, chat
        self.taken: tuple[str, ...] = OPTIONAL
        self.path = "/v1/chat/completions" if chat else "/v1/completions"

    def _asked(self, text: str) -> dict[str, Any]:
        given = {"messages": [{"role": "user", "content": text}]} if self.chat else {"prompt": text}
        return {"model": self.model, **given, "temperature": 0}

    def body(self, text: str, output_tokens: int) -> bytes:
        """A streamed request for an answer of so many tokens, as JSON."""
        forced = {"ignore_eos": True, "min_tokens": output_tokens}
        options = {"include_usage": True} | ({PER_CHUNK: True} if PER_CHUNK in self.taken else {})
        fields = self._asked(text) | {"max_tokens": output_tokens, "stream": True, "stream_options": options}
        fields |= {name: value for name, value in forced.items() if name in self.taken}
        return json.dumps(fields).encode()

    async def answer(self, body: bytes, answer: Answer) -> None:
        """Send a body of :meth:`body` and read its stream to the end. AnswerError when it does not end well."""
        await self.client.stream(self.path, body, answer)
        answer.check()

    async def count(self, text: str) -> int:
        """Tokens that the server's tokenizer, and its chat template, make of ``text``."""
        reply = await self.client.post(self.path, self._asked(text) | {"max_tokens": 1})
        if reply.status != 200:
            raise reply.error()
        try:
            return int(reply.json()["usage"]["prompt_tokens"])
        except (KeyError, TypeError, ValueError):
            raise AnswerError("malformed", "no usage.prompt_tokens, by which prompts are made") from None

    async def settle(self) -> None:
        """Find out which optional fields the server takes, by short answers. AnswerError when it answers with none."""
        while True:
            try:
                return await self.client.stream(self.path, self.body("Hello", 1), Answer())
            except AnswerError as failure:
                if failure.kind not in REFUSED or not self.taken:
                    raise
                named = [name for name in self.taken if name in failure.message]
                self.taken = tuple(name for name in self.taken if named and name not in named)


async def served_model(client: Client, wanted: str | None) -> str:
    """The model to ask for: ``wanted``, or the first that the server lists. SpecError when it is not listed.

    The embedded model may be listed by another of its names.
    """
    reply = await client.get("/v1/models")
    if reply.status != 200:
        if wanted is not None and reply.status == 404:
            return wanted
        raise reply.error()
    listed = _ids(reply.json())
    if wanted is not None and wanted not in listed:
        if is_embedded(wanted) and any(map(is_embedded, listed)):
            return next(filter(is_embedded, listed))
        raise SpecError("--model", wanted, f"the server has {', '.join(listed)}")
    if not listed:
        raise AnswerError("malformed", "the server lists no model")
    return wanted or listed[0]


def _ids(written: Any) -> list[str]:
    data = written.get("data") if isinstance(written, Mapping) else None
    return [str(item["id"]) for item in data or () if isinstance(item, Mapping) and "id" in item]
