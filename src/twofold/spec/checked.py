"""The base of every record that a user writes: strict fields, frozen, and one-line errors."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from twofold.errors import SpecError
from twofold.spec.accepted import accepted
from twofold.spec.quantity import parse_bandwidth, parse_bytes, parse_duration, parse_watts


def _reads(parse: Any) -> BeforeValidator:
    return BeforeValidator(lambda value: value if value is None else parse(value, ""))


Seconds = Annotated[float, _reads(parse_duration)]
"""A field in seconds that also reads ``"25ms"``."""
Bytes = Annotated[int, _reads(parse_bytes)]
"""A field in bytes that also reads ``"64GB"``."""
BytesPerSecond = Annotated[float, _reads(parse_bandwidth)]
"""A field in bytes a second that also reads ``"400Gb/s"``."""
Watts = Annotated[float, _reads(parse_watts)]
"""A field in watts that also reads ``"350W"``."""
Name = Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, Path) else value)]
"""A name of a catalog, or a path."""
Positive = Annotated[int, Field(ge=1)]
"""A whole number from 1 on."""


class Checked(BaseModel):
    """A frozen record that refuses unknown fields, and bad values with a SpecError."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise _one_line(type(self), error) from None

    @classmethod
    def read(cls, mapping: Any, field: str) -> Self:
        """Build one from a mapping found at ``field`` of a larger input."""
        if not isinstance(mapping, dict):
            raise SpecError(field, mapping, f"a mapping with the fields {', '.join(cls.model_fields)}")
        try:
            return cls(**{str(name): value for name, value in mapping.items()})
        except SpecError as error:
            raise SpecError(f"{field}.{error.field}", error.value, error.accepted) from None

    def replaced(self, **changes: Any) -> Self:
        """A copy with these fields changed, checked like a new one."""
        return type(self)(**{**dict(self), **changes})


UNION_MEMBER = r"function-|(str|dict\[.*\])$"


def _one_line(record: type[Checked], error: ValidationError) -> SpecError:
    first = error.errors()[0]
    path = [str(part) for part in first["loc"] if not re.match(UNION_MEMBER, str(part))]
    inner = first.get("ctx", {}).get("error")
    if isinstance(inner, SpecError):
        named = path[-1:] == [inner.field]
        return SpecError(".".join(path if named else filter(None, [*path, inner.field])), inner.value, inner.accepted)
    if first["type"] == "extra_forbidden":
        known = list(record.model_fields)
        close = difflib.get_close_matches(path[-1], known, 1)
        hint = f"did you mean {close[0]}?" if close else f"the fields are {', '.join(known)}"
        return SpecError(".".join(path), first["input"], f"no such field; {hint}")
    if first["type"] == "missing":
        return SpecError(".".join(path), None, "this field is required")
    return SpecError(".".join(path), first["input"], accepted(first))
