"""What a field accepts, in the words of this program, where pydantic found what was given to be none of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Limits = Mapping[str, Any]

WHOLE, NUMBER, TEXT, TRUTH, LIST, MAPPING = (
    "a whole number",
    "a number",
    "text",
    "true or false",
    "a list",
    "a mapping of fields to values",
)
BY_KIND = {
    "int": WHOLE,
    "float": NUMBER,
    "finite_number": "a number that is finite",
    "string": TEXT,
    "bool": TRUTH,
    "tuple": LIST,
    "list": LIST,
    "dict": MAPPING,
    "model": MAPPING,
    "path": "a path",
}
"""By how the name of an error begins: its kind of value, whichever way that was missed."""
BY_LIMIT: dict[str, Callable[[Limits], str]] = {
    "greater_than": lambda limits: f"a number above {limits['gt']}",
    "greater_than_equal": lambda limits: f"{limits['ge']} or more",
    "less_than": lambda limits: f"a number below {limits['lt']}",
    "less_than_equal": lambda limits: f"{limits['le']} or less",
    "too_short": lambda limits: f"at least {limits['min_length']} of them",
    "too_long": lambda limits: f"at most {limits['max_length']} of them",
    "string_too_short": lambda limits: f"at least {limits['min_length']} characters",
    "string_too_long": lambda limits: f"at most {limits['max_length']} characters",
    "literal_error": lambda limits: str(limits["expected"]).replace("'", ""),
}


def accepted(error: ErrorDetails) -> str:
    """What would have been accepted where ``error``, one of a ``ValidationError``, was found."""
    kind = error["type"]
    if kind in BY_LIMIT:
        return f"accepted: {BY_LIMIT[kind](error['ctx'])}"
    for beginning, what in BY_KIND.items():
        if kind.startswith(f"{beginning}_") or kind == beginning:
            return f"accepted: {what}"
    return error["msg"][:1].lower() + error["msg"][1:]
