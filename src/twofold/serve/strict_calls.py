"""Calls that must be valid under the parameters of their tool, in answers that need not make any.

Words are free until a call begins; from there on the answer is bound until the call ends. So what would begin a call is
no word here. Words may follow calls in Hermes's format; in the others an answer ends with its calls.
"""

import json
from collections.abc import Mapping
from typing import Any

from twofold.engine.grammar import WHITESPACE, Grammar
from twofold.engine.tool_formats import HERMES, LLAMA, MISTRAL, Format
from twofold.errors import SpecError
from twofold.serve.forced_calls import ANY_ARGUMENTS, calls_schema

Tools = list[dict[str, Any]]
Added = Mapping[str, int]
"""The words of a format that are tokens of their own, with their ids; the others are spelled."""
BETWEEN = {"whitespace_pattern": WHITESPACE}
ARGUMENTS = "[ARGS]"
LARK = r"""%llguidance {{}}
{rules}
opened: {opened}
spelled[lazy]: WORDS {before}
BLANK: /[ \n]{{1,4}}/
WORDS: /{words}/
"""
WORDS, WORDS_OF_NO_OBJECT = r"(.|\n)*", r"([^{\s](.|\n)*)?"


def strict_grammar(tools: Tools, form: Format | None, added: Added, parallel: bool) -> Grammar:
    """Words and calls of these tools as models write them in this format; at most one unless ``parallel``.

    The arguments of a tool that is not strict are any object. SpecError where calls cannot be bound in this format, or
    the parameters do not compile.
    """
    if form not in RULES:
        formats = ", ".join(known.name for known in RULES)
        raise SpecError("strict", True, f"strict calls that need not be made are for the formats {formats}")
    text = LARK.format(
        rules=RULES[form]([_bound(tool) for tool in tools], added, parallel),
        opened=f"WORDS <[{added[form.before]}]> | spelled" if form.before in added else "spelled",
        before=json.dumps(form.before),
        words=WORDS_OF_NO_OBJECT if form.bare else WORDS,
    )
    return Grammar.lark(text)


def _hermes(tools: Tools, added: Added, parallel: bool) -> str:
    return (
        f"start: call{'*' if parallel else '?'} WORDS\n"
        f"call: opened BLANK? body BLANK? {_word(HERMES.after, added)}\n"
        f"body: {_json(calls_schema(tools))}"
    )


def _llama(tools: Tools, added: Added, parallel: bool) -> str:
    return (
        "start: SPACES? (WORDS | (opened BLANK?)? bodies BLANK?)\n"
        f"bodies: body{' (BETWEEN? body)*' if parallel else ''}\n"
        "SPACES: /\\s+/\n"
        "BETWEEN: /[ \\n]{0,4}[;,][ \\n]{0,4}|[ \\n]{1,4}/\n"
        f"body: {_json(calls_schema(tools, 'parameters'))}"
    )


def _mistral(tools: Tools, added: Added, parallel: bool) -> str:
    """Names with their arguments where the tokenizer has a word between them, else a list of objects."""
    if ARGUMENTS not in added:
        more = ' (BLANK? "," BLANK? body)*' if parallel else ""
        bodies = f'"[" BLANK? body{more} BLANK? "]"'
        return f"start: WORDS | opened BLANK? {bodies} BLANK?\nbody: {_json(calls_schema(tools))}"
    calls = [f"{json.dumps(name)} {_word(ARGUMENTS, added)} BLANK? {_json(schema)}" for name, schema in _named(tools)]
    return f"start: WORDS | call{'+' if parallel else ''} BLANK?\ncall: opened BLANK? ({' | '.join(calls)})"


RULES = {HERMES: _hermes, LLAMA: _llama, MISTRAL: _mistral}


def _named(tools: Tools) -> list[tuple[str, dict[str, Any]]]:
    functions = [tool["function"] for tool in tools]
    return [(function["name"], function.get("parameters") or ANY_ARGUMENTS) for function in functions]


def _word(word: str, added: Added) -> str:
    spelled = json.dumps(word)
    return f"(<[{added[word]}]> | {spelled})" if word in added else spelled


def _json(schema: dict[str, Any]) -> str:
    return "%json " + json.dumps({**schema, "x-guidance": BETWEEN})


def _bound(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    return tool if function.get("strict") else {"function": {**function, "parameters": ANY_ARGUMENTS}}
