"""The body of ``/v1/chat/completions``."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from twofold.serve.schema import Body, Count, No, Sampling, Text, Yes


class TextPart(Body):
    """A piece of text; other kinds of parts are refused."""

    type: Literal["text"]
    text: str


class CalledFunction(Body):
    """What the assistant called: a name, and the arguments as JSON text."""

    name: Text
    arguments: str


class ToolCall(Body):
    """A call that the assistant made earlier."""

    id: Text
    type: Literal["function"]
    function: CalledFunction


class Message(Body):
    """One message of a conversation. Several text parts are joined by line ends."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | Annotated[list[TextPart], Field(fail_fast=True)] | None = None
    name: Text | None = None
    tool_calls: Annotated[list[ToolCall], Field(fail_fast=True)] | None = None
    tool_call_id: Text | None = None
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None

    @model_validator(mode="after")
    def _complete(self) -> "Message":
        if self.content is None and not self.tool_calls:
            raise ValueError("a message has content, or tool_calls")
        if self.tool_calls and self.role != "assistant":
            raise ValueError("only the assistant calls tools")
        if (self.tool_call_id is not None) != (self.role == "tool"):
            raise ValueError("tool_call_id belongs to a message of role tool, and to no other")
        return self

    def plain(self) -> dict[str, Any]:
        """The message as chat templates expect it."""
        text = self.content
        if isinstance(text, list):
            text = "\n".join(part.text for part in text)
        role = "system" if self.role == "developer" else self.role
        message: dict[str, Any] = {"role": role, "content": text}
        if self.tool_calls:
            message["tool_calls"] = [call.model_dump() for call in self.tool_calls]
        return message | {
            name: value for name in ("name", "tool_call_id") if (value := getattr(self, name)) is not None
        }


Messages = Annotated[list[Message], Field(min_length=1, max_length=4096, fail_fast=True)]


class Function(Body):
    """A function that the model may call."""

    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_.-]{1,64}$")]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(Body):
    """A tool is a function."""

    type: Literal["function"]
    function: Function


Tools = Annotated[list[Tool], Field(max_length=128, fail_fast=True)]


class NamedFunction(Body):
    """A function by its name."""

    name: Text


class NamedTool(Body):
    """The tool that the answer must call."""

    type: Literal["function"]
    function: NamedFunction


class ChatRequest(Sampling):
    """A conversation to be continued."""

    messages: Messages
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    logprobs: bool = False
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    tools: Tools | None = None
    tool_choice: Literal["auto", "none", "required"] | NamedTool | None = None
    parallel_tool_calls: bool = True
    add_generation_prompt: bool = True
    add_special_tokens: No = False
    continue_final_message: No = False
    echo: No = False
    include_reasoning: Yes = True
    modalities: Annotated[list[Literal["text"]], Field(min_length=1, max_length=1)] | None = None
    chat_template_kwargs: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _fit(self) -> "ChatRequest":
        if None not in (self.max_tokens, self.max_completion_tokens) and self.max_tokens != self.max_completion_tokens:
            raise ValueError("max_tokens and max_completion_tokens differ; give one")
        if self.top_logprobs and not self.logprobs:
            raise ValueError("top_logprobs is for logprobs: true")
        if self.tool_choice not in (None, "auto", "none") and not self.tools:
            raise ValueError("tool_choice is for requests with tools")
        if isinstance(self.tool_choice, NamedTool) and not self.forced_tools():
            raise ValueError("tool_choice names a function that is not among tools")
        if self.forced_tools() and self.bounds():
            raise ValueError("tool_choice binds the answer, and so does response_format or a guided field; give one")
        if self.has_strict_tools() and self.bounds():
            raise ValueError("tools that are strict bind the answer, and so does response_format or a guided field")
        return self

    def limit(self) -> int | None:
        """The most tokens to generate, or None."""
        return self.max_completion_tokens if self.max_tokens is None else self.max_tokens

    def offered_tools(self) -> list[dict[str, Any]] | None:
        """The tools as chat templates expect them; None when there are none, or none may be called."""
        if not self.tools or self.tool_choice == "none":
            return None
        return [tool.model_dump(exclude_none=True) for tool in self.tools]

    def forced_tools(self) -> list[dict[str, Any]]:
        """The tools of which the answer must call one; none when it need not call any."""
        offered = self.offered_tools() or []
        if isinstance(self.tool_choice, NamedTool):
            return [tool for tool in offered if tool["function"]["name"] == self.tool_choice.function.name]
        return offered if self.tool_choice == "required" else []

    def has_strict_tools(self) -> bool:
        """Whether calls that need not be made must be valid, if they are, under the parameters of their tools."""
        tools = self.tools if self.tool_choice in (None, "auto") else None
        return any(tool.function.strict for tool in tools or ())
