"""Wrong flags and arguments as one line: which, what was given, and what is accepted."""

import difflib
import re
from collections.abc import Callable, Sequence
from typing import Any

from twofold.errors import SpecError

QUOTED, EXTRA = re.compile(r"'([^']*)'"), re.compile(r"extra arguments?(?:\(s\))? \((.*)\)")


def told(error: Any, verbs: Sequence[str]) -> str:
    """What is wrong with a command line that the parser refused with ``error``; ``verbs`` are all that there are."""
    for kind in type(error).__mro__:
        if kind.__name__ in SAID and getattr(error, "param", ...) is not None:
            return SAID[kind.__name__](error)
    if extra := EXTRA.search(error.message):
        return str(SpecError("arguments", extra[1], f"accepted: what {error.ctx.command_path} --help lists"))
    verb = QUOTED.search(error.message)
    return str(error.format_message()) if verb is None else _no_verb(verb[1], verbs)


def name_of(parameter: Any) -> str:
    """A flag by its long name, an argument as the help writes it."""
    longest = str(max(parameter.opts, key=len))
    return longest if longest.startswith("-") else str(parameter.metavar or longest).strip("[]")


def _missing(error: Any) -> str:
    asked = getattr(error.param, "help", None) or f"give {error.param.metavar}"
    return str(SpecError(name_of(error.param), None, asked[:1].lower() + asked[1:].rstrip(".")))


def _bad_value(error: Any) -> str:
    from pydantic import ValidationError

    from twofold.spec.accepted import accepted

    if not isinstance(error.__cause__, ValidationError):
        return f"{name_of(error.param)}: {error.message}"
    first = error.__cause__.errors()[0]
    return str(SpecError(name_of(error.param), first["input"], accepted(first)))


def _no_flag(error: Any) -> str:
    near = "".join(difflib.get_close_matches(error.option_name, error.possibilities or (), 1))
    return f"{error.option_name}: no such flag; " + (
        f"did you mean {near}?" if near else f"accepted: those of {error.ctx.command_path} --help"
    )


def _bad_use(error: Any) -> str:
    if "not take" in error.message:
        return f"{error.option_name}: a value is not accepted; give the flag alone"
    return str(SpecError(error.option_name, None, "a value is to follow the flag"))


def _no_verb(given: str, verbs: Sequence[str]) -> str:
    near = " or ".join(difflib.get_close_matches(given, verbs))
    return str(SpecError("VERB", given, f"did you mean {near}?" if near else f"accepted: {', '.join(verbs)}"))


SAID: dict[str, Callable[[Any], str]] = {
    "MissingParameter": _missing,
    "BadParameter": _bad_value,
    "NoSuchOption": _no_flag,
    "BadOptionUsage": _bad_use,
}
"""By the name of the class of an error, which is typer's or click's as the version of typer has it."""
