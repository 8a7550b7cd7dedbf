"""What binds an answer: read from the field that says it, and compiled beside the event loop, one at a time."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from twofold.engine.grammar import Grammar
from twofold.engine.tool_formats import Format
from twofold.errors import SpecError
from twofold.serve.chat_schema import ChatRequest
from twofold.serve.errors import from_spec
from twofold.serve.forced_calls import call_grammar
from twofold.serve.schema import JsonBySchema, Sampling
from twofold.serve.strict_calls import Added, strict_grammar

MOST_CHARACTERS = 1 << 16
"""In a regular expression, in a schema as JSON, or in all choices together."""
TOOLS = "tools"
Calls = tuple[Format | None, Added]
"""How the model writes calls, and which words of that are tokens of their own."""
NO_CALLS: Calls = (None, {})
_compiling = ThreadPoolExecutor(1, "grammars")


def bound_by(body: Sampling) -> str | None:
    """The field that says what the answer must spell; None for a free answer."""
    if isinstance(body, ChatRequest) and (body.forced_tools() or body.has_strict_tools()):
        return TOOLS
    return next(iter(body.bounds()), None)


async def compiled_grammar(body: Sampling, calls: Calls = NO_CALLS) -> Grammar | None:
    """What :func:`grammar_of` gives, while others are served."""
    if bound_by(body) is None:
        return None
    return await asyncio.get_running_loop().run_in_executor(_compiling, grammar_of, body, calls)


def grammar_of(body: Sampling, calls: Calls = NO_CALLS) -> Grammar | None:
    """What binds the answer, if anything does; ApiError 400 names the field that holds it."""
    field = bound_by(body)
    if field is None:
        return None
    try:
        return _tools(body, calls) if field == TOOLS else READERS[field](body)
    except SpecError as error:
        raise from_spec(error, field) from None


def _tools(body: Any, calls: Calls) -> Grammar:
    tools: list[dict[str, Any]] = body.forced_tools()
    _schema_text(tools or body.offered_tools(), TOOLS)
    return call_grammar(tools) if tools else strict_grammar(body.offered_tools(), *calls, body.parallel_tool_calls)


def _response_format(body: Sampling) -> Grammar:
    if isinstance(body.response_format, JsonBySchema):
        return _json(body.response_format.json_schema.schema_, "json_schema")
    return Grammar.json_object()


def _structured_outputs(body: Sampling) -> Grammar:
    given = body.structured_outputs
    assert given is not None
    if given.json_ is not None:
        return _json(given.json_, "json")
    if given.regex is not None:
        return _regex(given.regex)
    return Grammar.json_object() if given.choice is None else _choice(given.choice)


READERS: dict[str, Callable[[Any], Grammar]] = {
    "response_format": _response_format,
    "structured_outputs": _structured_outputs,
    "guided_json": lambda body: _json(body.guided_json, "guided_json"),
    "guided_regex": lambda body: _regex(body.guided_regex),
    "guided_choice": lambda body: _choice(body.guided_choice),
}


def _json(schema: dict[str, Any] | str, name: str) -> Grammar:
    return Grammar.json_schema(_schema_text(schema, name))


def _regex(pattern: str) -> Grammar:
    _check_length(len(pattern), "regex")
    return Grammar.regex(pattern)


def _choice(choices: list[str]) -> Grammar:
    _check_length(sum(map(len, choices)), "choice")
    return Grammar.choice(choices)


def _schema_text(schema: Any, name: str) -> str:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    _check_length(len(text), name)
    return text


def _check_length(characters: int, name: str) -> None:
    if characters > MOST_CHARACTERS:
        raise SpecError(name, characters, f"at most {MOST_CHARACTERS} characters are compiled, these are {characters}")
