"""The bodies of ``/v1/completions``, ``/tokenize`` and ``/detokenize``."""

from typing import Annotated, Any

from pydantic import Field, model_validator

from twofold.serve.chat_schema import Messages, Tools
from twofold.serve.schema import Body, Count, NotNegative, Sampling, Text, TokenIds

DEFAULT_MAX_TOKENS = 16
MOST_PROMPTS = 1024
Prompt = Annotated[str, Field(min_length=1)]
Prompts = Annotated[list[Prompt], Field(min_length=1, max_length=MOST_PROMPTS, fail_fast=True)]
TokenPrompts = Annotated[list[TokenIds], Field(min_length=1, max_length=MOST_PROMPTS, fail_fast=True)]


class CompletionRequest(Sampling):
    """One prompt or several, as text or as token ids, to be continued."""

    prompt: Prompt | TokenIds | Prompts | TokenPrompts
    max_tokens: Count = DEFAULT_MAX_TOKENS
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    echo: bool = False
    best_of: Count | None = None
    add_special_tokens: bool = True

    @model_validator(mode="after")
    def _fit(self) -> "CompletionRequest":
        if self.best_of not in (None, self.n):
            raise ValueError("best_of other than n is not supported")
        if self.echo and self.logprobs is not None:
            raise ValueError("echo with logprobs is not supported: prompts have no logprobs here")
        return self

    def prompts(self) -> list[str | list[int]]:
        """The prompts as a list."""
        if isinstance(self.prompt, str) or isinstance(self.prompt[0], int):
            return [self.prompt]
        return list(self.prompt)


class TokenizeRequest(Body):
    """A text, or a conversation, of which the tokens are wanted."""

    model: Text | None = None
    prompt: str | None = None
    messages: Messages | None = None
    tools: Tools | None = None
    add_generation_prompt: bool = True
    chat_template_kwargs: dict[str, Any] | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool = False

    @model_validator(mode="after")
    def _one(self) -> "TokenizeRequest":
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("give prompt or messages")
        return self


class DetokenizeRequest(Body):
    """Tokens of which the text is wanted."""

    model: Text | None = None
    tokens: Annotated[list[NotNegative], Field(max_length=250_000, fail_fast=True)]
