from typing import Any, Literal

import pytest
from pydantic import ConfigDict, Field

from twofold.errors import SpecError
from twofold.spec.checked import Checked


class Record(Checked):
    """A field of every kind that pydantic has words of its own for."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    count: int = 1
    share: float = Field(0.5, gt=0, le=1)
    size: int = Field(2, ge=1, lt=10)
    name: str = Field("x", min_length=1, max_length=3)
    on: bool = True
    rows: tuple[int, ...] = Field((1,), min_length=1, max_length=2)
    table: dict[str, int] = Field({})
    way: Literal["in", "out"] = "in"


@pytest.mark.parametrize(
    ("field", "value", "accepted"),
    [
        ("count", "many", "a whole number"),
        ("count", 1.5, "a whole number"),
        ("share", "half", "a number"),
        ("share", 0, "a number above 0.0"),
        ("share", 2, "1.0 or less"),
        ("share", float("nan"), "a number that is finite"),
        ("size", 0, "1 or more"),
        ("size", 10, "a number below 10"),
        ("name", 7, "text"),
        ("name", "", "at least 1 characters"),
        ("name", "long", "at most 3 characters"),
        ("on", "perhaps", "true or false"),
        ("rows", 7, "a list"),
        ("rows", [], "at least 1 of them"),
        ("rows", [1, 2, 3], "at most 2 of them"),
        ("table", [1], "a mapping of fields to values"),
        ("way", "up", "in or out"),
    ],
)
def test_what_a_field_accepts_is_said_in_our_own_words(field: str, value: Any, accepted: str) -> None:
    with pytest.raises(SpecError) as caught:
        Record(**{field: value})
    assert str(caught.value) == f"{field}: {value!r} is not accepted; accepted: {accepted}"


def test_what_is_missing_is_not_called_none() -> None:
    assert str(SpecError("--slo", None, "give limits")) == "--slo: missing; give limits"
