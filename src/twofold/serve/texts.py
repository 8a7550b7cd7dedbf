"""The tokenizer and the chat template of the served model, as the routes use them."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from twofold.engine.params import Params
from twofold.engine.stream import Stream
from twofold.engine.tokens import Tokenizer
from twofold.engine.tool_calls import Parser
from twofold.engine.tool_formats import Format, format_of
from twofold.errors import SpecError
from twofold.serve.chat_schema import ChatRequest
from twofold.serve.completion_schema import TokenizeRequest
from twofold.serve.errors import ApiError, from_spec
from twofold.serve.protocol import Found

LONG_TEXT = 8192
"""Characters from which on texts are tokenised in a thread, so that nobody else waits for them."""
MANY_MESSAGES = 100
"""Messages and parts of them from which on a conversation is written in a thread."""
CHARACTERS_A_TOKEN, PIECE = 8, 1 << 18
"""Longer texts than so many a token that is accepted, or than a piece, are counted by pieces before they are taken."""
_tokenising = ThreadPoolExecutor(1, "texts")


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

    async def encode(self, texts: Sequence[str], special: bool, most: int, param: str = "prompt") -> list[list[int]]:
        """The tokens of each text; ``special`` adds those that the tokenizer puts around a text.

        ApiError 400 for what the tokenizer refuses, and for a text that has more than twice ``most`` tokens.
        """
        length = sum(map(len, texts))
        if length < LONG_TEXT:
            return self._encoded(texts, special, most, param)
        threads = _tokenising if length > PIECE else None
        return await asyncio.get_running_loop().run_in_executor(threads, self._encoded, texts, special, most, param)

    async def encode_chat(
        self, body: ChatRequest | TokenizeRequest, tools: list[dict[str, Any]] | None, most: int
    ) -> list[int]:
        """The tokens of a conversation, through the chat template of the model; ApiError 400 as :meth:`encode`."""
        parts = (len(message.content) if isinstance(message.content, list) else 1 for message in body.messages or ())
        if sum(parts) < MANY_MESSAGES:
            text = self._written(body, tools)
        else:
            text = await asyncio.to_thread(self._written, body, tools)
        return (await self.encode([text], False, most, "messages"))[0]

    def _encoded(self, texts: Sequence[str], special: bool, most: int, param: str) -> list[list[int]]:
        try:
            for text in texts:
                self._check_length(text, most, param)
            return [self.tokenizer.encode(text, special) for text in texts]
        except SpecError as error:
            raise from_spec(error, param) from None

    def _check_length(self, text: str, most: int, param: str) -> None:
        """Refuse what is far too long before all of it is tokenised: so long a list would hold up everybody."""
        size = min(CHARACTERS_A_TOKEN * most, PIECE)
        count = 0
        for start in range(0, len(text) if len(text) > size else 0, size):
            count += len(self.tokenizer.encode(text[start : start + size], False))
            if count > 2 * most:
                message = f"{param} has over {count} tokens, at most {most} are accepted"
                raise ApiError(400, message, param=param, code="context_length_exceeded")

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
            message = (
                'tools: this model writes no calls of its own accord; tool_choice "required" binds it to write one'
            )
            raise ApiError(400, message, param="tools", code="unsupported_parameter")

    def shown_tools(self, body: ChatRequest) -> list[dict[str, Any]] | None:
        """The offered tools for the template; ApiError 400 when calls of them cannot be told from words.

        An answer that is bound to be a call is told by that: there a template need not take tools.
        """
        tools = body.offered_tools()
        if not tools:
            return None
        if not body.forced_tools():
            self.check_tools()
        chat = self.tokenizer.tool_chat
        return tools if chat is not None and chat.takes_tools else None

    @property
    def calls(self) -> tuple[Format | None, dict[str, int]]:
        """How the model writes calls, and which words of that are tokens of their own."""
        words = self._calls.markers if self._calls else ()
        ids = {word: self.tokenizer.id_of(word) for word in words if self.tokenizer.is_added(word)}
        return self._calls, {word: token for word, token in ids.items() if token is not None}

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
