"""Answers that must be a tool call: the grammar that binds them, and how they are read.

A bound answer is one call as JSON, whatever format the model was trained to write: the tokenizers of some models keep
the words around a call as special tokens, and others as text, but every one can spell JSON.
"""

from typing import Any

from twofold.engine.grammar import Grammar
from twofold.engine.tool_calls import Parser
from twofold.engine.tool_formats import Format
from twofold.errors import SpecError

FORMAT = Format("json", before="{", bare=True)
DEFINITIONS = ("$defs", "definitions")
ANY_ARGUMENTS = {"type": "object"}


def call_grammar(tools: list[dict[str, Any]]) -> Grammar:
    """One call of one of these tools, its arguments valid under the tool's parameters.

    SpecError when they do not compile, or when two tools define different things under one name.
    """
    return Grammar.json_schema(calls_schema(tools))


def calls_schema(tools: list[dict[str, Any]], arguments: str = "arguments") -> dict[str, Any]:
    """The JSON schema of a call of one of these tools, its arguments under this name.

    SpecError when two tools define different things under one name.
    """
    shared: dict[str, dict[str, Any]] = {}
    calls = [_call(tool["function"], shared, arguments) for tool in tools]
    return {"anyOf": calls, **shared}


def call_parser(tools: list[dict[str, Any]]) -> Parser:
    """What reads an answer that the grammar of these tools binds."""
    return Parser(FORMAT, [tool["function"]["name"] for tool in tools], parallel=False)


def _call(function: dict[str, Any], shared: dict[str, dict[str, Any]], arguments: str) -> dict[str, Any]:
    """The schema of a call; what its parameters define for references goes to ``shared``, as references start there."""
    parameters = dict(function.get("parameters") or ANY_ARGUMENTS)
    for keyword in DEFINITIONS:
        for name, definition in parameters.pop(keyword, {}).items():
            if shared.setdefault(keyword, {}).setdefault(name, definition) != definition:
                raise SpecError("tools", name, f"tools that define {name!r} alike, as the answer may be any of them")
    return {
        "type": "object",
        "properties": {"name": {"const": function["name"]}, arguments: parameters},
        "required": ["name", arguments],
        "additionalProperties": False,
    }
