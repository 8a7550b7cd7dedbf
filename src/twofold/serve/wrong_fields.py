"""What is wrong with a request body, in one line that names the field and says what it should be."""

import difflib
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from twofold.serve.errors import ApiError

Place = tuple[int | str, ...]

SHOULD_BE = "Input should be "
LONGEST_NAME = 64
OBJECTS = frozenset({"dict_type", "model_type", "model_attributes_type"})
OTHER_TYPES = OBJECTS | {"string_type", "list_type", "int_type", "float_type", "bool_type", "literal_error"}
"""A value of another type altogether, as the members of a union that are not meant say of it."""


def from_validation(error: ValidationError, model: type[BaseModel], body: Any) -> ApiError:
    """The most particular thing that is wrong. Of a union, that is what the members of the value's own type say."""
    if not isinstance(body, dict):
        return ApiError(400, "the body is one JSON object", code="invalid_type")
    found = [(_place(each, body), each) for each in error.errors(include_url=False, include_input=False)]
    fit = [(place, each) for place, each in found if not _is_other_type(each, _value(body, place))]
    place, first = max(fit or found, key=lambda each: _depth(each[0]))
    param = ".".join(_shown(part) for part in place)
    match first["type"]:
        case "extra_forbidden":
            return ApiError(400, _unknown(param, place, model), param=param, code="unknown_parameter")
        case "missing":
            return _missing(param)
        case "union_tag_not_found":
            return _missing(f"{param}.{_discriminator(first)}")
        case "union_tag_invalid":
            tags = first["ctx"]["expected_tags"]
            return _invalid(f"{param}.{_discriminator(first)}", f": it should be one of {tags}")
    if fit:
        return _told(param, first["msg"], _value(body, place))
    kinds = dict.fromkeys(_kind(each) for other, each in found if other == place)
    return _told(param, SHOULD_BE + " or ".join(kinds), None)


def _shown(part: int | str) -> str:
    """A name in the body, which may be as long as the body is."""
    return str(part)[:LONGEST_NAME]


def _depth(place: Place) -> tuple[int, list[int]]:
    """Deeper is more particular, and so is further on in a list, up to where it was right."""
    return len(place), [part for part in place if isinstance(part, int)]


def _told(param: str, message: str, value: Any) -> ApiError:
    """The message in our words; one that begins with a field of ``value``, which is at fault, is about that."""
    for pydantics, ours in (("Value error, ", ""), ("Input should", "it should"), (" after validation", "")):
        message = message.replace(pydantics, ours, 1)
    first = message.partition(" ")[0]
    if isinstance(value, dict) and first in value:
        return _invalid(f"{param}.{first}" if param else first, message.removeprefix(first))
    return _invalid(param, f": {message}" if param else message)


def _is_other_type(error: ErrorDetails, value: Any) -> bool:
    return error["type"] in OTHER_TYPES and not (error["type"] == "literal_error" and isinstance(value, str))


def _kind(error: ErrorDetails) -> str:
    return "an object" if error["type"] in OBJECTS else error["msg"].removeprefix(SHOULD_BE)


def _discriminator(error: ErrorDetails) -> str:
    return str(error["ctx"]["discriminator"]).strip("'")


def _missing(param: str) -> ApiError:
    return ApiError(400, f"{param} is required", param=param, code="missing_required_parameter")


def _invalid(param: str, rest: str) -> ApiError:
    return ApiError(400, param + rest, param=param or None, code="invalid_value")


def _place(error: ErrorDetails, body: Any) -> Place:
    """Where in the body it is: what pydantic adds for the members of a union is left out."""
    kept: list[int | str] = []
    value = body
    for number, part in enumerate(error["loc"]):
        inside = part in value if isinstance(value, dict) else isinstance(value, list) and isinstance(part, int)
        if inside:
            kept.append(part)
            value = _member(value, part)
        elif error["type"] == "missing" and number == len(error["loc"]) - 1:
            kept.append(part)
    return tuple(kept)


def _member(value: Any, part: int | str) -> Any:
    if isinstance(value, list):
        return value[int(part)] if int(part) < len(value) else None
    return value.get(part) if isinstance(value, dict) else None


def _value(body: Any, place: Place) -> Any:
    for part in place:
        body = _member(body, part)
    return body


def _unknown(param: str, place: Place, model: type[BaseModel]) -> str:
    close = difflib.get_close_matches(param, model.model_fields, 1) if len(place) == 1 else []
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"{param} is not a field that this server knows{hint}"
