"""Tables on a terminal that is narrower than they are."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terminal import terminal
from twofold.cli import show
from twofold.cli.comparison import comparison
from twofold.cli.narrow import fitted
from twofold.cli.show import table

TWOFOLD = Path(sys.executable).parent / "twofold"
HEAD = ("deployment", "goodput, req/s", "per device", "why", "")
ROWS = [("2P,chunked=512 + 14D", "12.0", "0.75", "decode steps", "█████"), ("1B", "9.00", "9.00", "queue", "██")]
LEFT = (0, 3)


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    return lambda columns: monkeypatch.setattr(show, "room", lambda: columns)


def lines(width: int, narrow: Callable[[int], None], **how: Any) -> list[str]:
    narrow(width)
    found = table(HEAD, ROWS, left=LEFT, **how).splitlines()
    assert max(map(len, found)) <= width
    return found


def test_where_there_is_room_nothing_is_folded(narrow: Callable[[int], None]) -> None:
    assert lines(80, narrow)[0] == "deployment            goodput, req/s  per device  why"
    assert lines(80, narrow) == lines(show.UNBOUNDED, narrow)


def test_heads_are_folded_before_a_column_is_left_out(narrow: Callable[[int], None]) -> None:
    assert lines(60, narrow)[:3] == [
        "                      goodput,     per",
        "deployment               req/s  device  why",
        "2P,chunked=512 + 14D      12.0    0.75  decode steps  █████",
    ]


def test_bars_go_first_then_what_can_be_spared_and_is_named(narrow: Callable[[int], None]) -> None:
    assert "█" not in lines(55, narrow, spare=(2,))[2]
    spared = lines(45, narrow, spare=(2,))
    assert "0.75" not in spared[2]
    assert " ".join(spared[-2:]) == "not shown for want of room, but by --json: per device"


def test_cells_are_folded_last_at_spaces_and_commas(narrow: Callable[[int], None]) -> None:
    narrow(31)
    text = table(("policy", "ms"), [("1B,prefill-first,batch=64,decode-every=3", "4.0")])
    assert [line.split()[0] for line in text.splitlines()] == ["policy", "1B,prefill-first,batch=64,", "decode-every=3"]


@given(
    widths=st.lists(st.integers(1, 40), min_size=1, max_size=8),
    room=st.integers(20, 200),
    spare=st.sets(st.integers(0, 7)),
)
def test_it_fits_or_cannot_be_narrower(widths: list[int], room: int, spare: set[int]) -> None:
    head, row = ["head"] * len(widths), ["x" * width for width in widths]
    able = [place for place in sorted(spare) if 0 < place < len(widths)]
    found = fitted(head, [row], (0,), 100, able, room)
    assert found.total() <= room or (found.width(0) <= 12 and not set(able) & set(found.places))
    assert set(range(len(widths))) - set(found.places) <= set(able)


def run(deployment: str) -> dict[str, Any]:
    spread = {"p50": 1.2345, "p99": 123.456}
    latencies = dict.fromkeys(("ttft_s", "tpot_s", "tbt_s", "e2e_s"), spread)
    rest = {"deployment": deployment, "devices": 16, "throughput_tokens_s": 54321.0, "cost_usd": 123.0, "band": None}
    return {**rest, **latencies, "attainment": 0.93}


@pytest.mark.parametrize("columns", [80, 100])
def test_a_comparison_fits_with_its_marks_in_line(narrow: Callable[[int], None], columns: int) -> None:
    narrow(columns)
    text = comparison([run("2P,tp2,chunked=8192 + 6D,tp2,batch=64"), run("4B,multiplexed=slo,tbt=20ms")])
    assert max(map(len, text.splitlines())) <= columns
    assert "TBT" in text
    assert "attainment" in text


def test_a_terminal_of_100_columns_gets_100() -> None:
    command = [TWOFOLD, "compare", "sample", "--requests", "60", "--model", "llama-3-8b", "--device", "H100"]
    command += ["--slo", "ttft<=0.5s", "--deploy", "4B,chunked=512,batch=64,prefix", "--deploy", "2P2D,tp2"]
    with terminal() as shown:
        environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1"}
        process = subprocess.Popen(command, stdout=shown.inside, stderr=subprocess.DEVNULL, env=environment)
        shown.leave_inside()
        try:
            text = shown.wait_for("best of the column")
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()
    found = text.replace("\r", "").splitlines()
    assert max(map(len, found[1:])) <= 100
    assert any("TTFT" in line for line in found)
