"""The tokenizer and the chat template of the served model, as the routes use them."""

import asyncio
from pathlib import Path
from typing import Any

from twofold.engine.params import Params
from twofold.engine.stream import Stream
from twofold.engine.tokens import Tokenizer
from twofold.engine.tool_calls import Parser
from twofold.engine.tool_formats import format_of
from twofold.errors import SpecError
from twofold.serve.chat_schema import ChatRequest
from twofold.serve.completion_schema import TokenizeRequest
from twofold.serve.errors import ApiError, from_spec
from twofold.serve.protocol import Found

LONG_TEXT = 8192
"""Characters from which on a text is tokenised in a thread, so that nobody else waits for it."""
MANY_MESSAGES = 100
"""From which on a conversation is written in a thread."""


class Texts:
    """Text to tokens and back. What the tokenizer refuses is an ApiError 400."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.hidden = tokenizer.hidden
        chat = tokenizer.tool_chat
        self._calls = format_of(chat.source) if chat is not None and chat.takes_tools else None

    @classmethod
    def of(cls, found: Found) -> "Texts":
        """The texts of what a worker serves; SpecError when its tokenizer cannot be used."""
        return cls(Tokenizer.load(Path(found["tokenizer"]), found["chat_template"]))

    async def encode(self, text: str, special: bool, param: str = "prompt") -> list[int]:
        """The tokens of a text; ``special`` adds those that the tokenizer puts around a text."""
        try:
            if len(text) < LONG_TEXT:
                return self.tokenizer.encode(text, special)
            return await asyncio.to_thread(self.tokenizer.encode, text, special)
        except SpecError as error:
            raise from_spec(error, param) from None

    async def encode_chat(self, body: ChatRequest | TokenizeRequest, tools: list[dict[str, Any]] | None) -> list[int]:
        """The tokens of a conversation, through the chat template of the model."""
        messages = body.messages or []
        if len(messages) < MANY_MESSAGES:
            text = self._written(body, tools)
        else:
            text = await asyncio.to_thread(self._written, body, tools)
        return await self.encode(text, False, "messages")

    def _written(self, body: ChatRequest | TokenizeRequest, tools: list[dict[str, Any]] | None) -> str:
        messages = [message.plain() for message in body.messages or ()]
        kwargs = body.chat_template_kwargs or {}
        try:
            return self.tokenizer.apply_chat(messages, tools, body.add_generation_prompt, **kwargs)
        except SpecError as error:
            raise from_spec(error) from None
        except TypeError:
            raise from_spec(
                SpecError("chat_template_kwargs", sorted(kwargs), "names that the template takes")
            ) from None

    def decode(self, tokens: list[int]) -> str:
        """The text of tokens, special ones shown; ApiError for a token that does not exist."""
        try:
            return self.tokenizer.decode(tokens, special=True)
        except SpecError as error:
            raise from_spec(error, "tokens") from None

    def piece(self, token: int) -> bytes:
        """The bytes of one token; none for an id that the model has and the tokenizer has not."""
        try:
            return self.tokenizer.piece(token)
        except SpecError:
            return b""

    def check_tools(self) -> None:
        """Raise an ApiError 400 when calls as this model writes them cannot be told from words."""
        if self._calls is None:
            raise ApiError(400, "tools: this model writes no tool calls", param="tools", code="unsupported_parameter")

    def call_markers(self) -> tuple[int, ...]:
        """The special tokens around tool calls, which a text must show for them to be found."""
        ids = [self.tokenizer.id_of(marker) for marker in self._calls.markers] if self._calls else []
        return tuple(token for token in ids if token is not None)

    def parser(self, names: list[str], parallel: bool) -> Parser:
        """What tells calls of these tools from words, in one answer."""
        assert self._calls is not None
        return Parser(self._calls, names, parallel=parallel)

    def detokenizer(self, params: Params, skip_special: bool, shown: tuple[int, ...] = ()) -> Stream:
        """What turns the tokens of one answer into text as they come; special ones in ``shown`` stay in the text."""
        return Stream(
            self,
            params.stop,
            include_stop=params.include_stop,
            min_tokens=params.min_tokens,
            shown=shown if skip_special else self.hidden,
        )
