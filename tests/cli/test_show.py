import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.cli.show import PIPED, bar, milliseconds, number, percent, print_json, table


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.0076962, "7.70"), (0.0892, "89.2"), (12.3456, "12,346"), (None, "–"), (math.nan, "–")],
)
def test_milliseconds(seconds: float | None, shown: str) -> None:
    assert milliseconds(seconds) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (8.030261, "8.03"), (671.0, "671"), (131072, "131,072"), (0.25, "0.250"), (12.96, "13.0")],
)
def test_number(value: float, shown: str) -> None:
    assert number(value) == shown


def test_percent() -> None:
    assert percent(0.9731) == "97.3 %"


@given(st.floats(0, 1), st.integers(1, 60))
def test_bar_is_as_long_as_its_share(share: float, width: int) -> None:
    drawn = bar(share, width).rstrip()
    assert len(bar(share, width)) == width
    assert share * width - 1 <= len(drawn) <= math.ceil(share * width + 1 / 8)


def test_table_aligns_names_left_and_numbers_right() -> None:
    assert table(["name", "ms"], [["a", "1.00"], ["long", "12.0"]]).splitlines() == [
        "name    ms",
        "a     1.00",
        "long  12.0",
    ]


def test_a_table_in_a_pipe_has_two_hundred_columns_at_most_and_says_what_it_lacks() -> None:
    head, row = [f"a heading of some words {place}" for place in range(12)], ["123,456,789"] * 12
    lines = table(head, [row], spare=range(11, 0, -1)).splitlines()
    assert max(map(len, lines)) <= PIPED
    assert not any("not shown" in line for line in lines)
    wider = table([*head, *head], [[*row, *row]], spare=range(23, 0, -1)).splitlines()
    assert max(map(len, wider)) <= PIPED
    assert "not shown for want of room, but by --json: a heading" in " ".join(wider)


def test_json_has_no_numbers_that_json_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [math.nan, math.inf, 1.5], "b": {"c": (1, 2)}})
    assert json.loads(capsys.readouterr().out) == {"a": [None, None, 1.5], "b": {"c": [1, 2]}}
