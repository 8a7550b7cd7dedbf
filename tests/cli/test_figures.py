import json
from typing import Any

import pytest

from twofold import figures
from twofold.cli.figures import difference
from twofold.figures.row import Row


def row(**changes: Any) -> Row:
    fields: dict[str, Any] = {
        "id": "9.9.made",
        "chapter": "none",
        "kind": "exact",
        "what": "made up",
        "chapter_value": "2 ms",
        "ours": "3 ms",
        "difference": 0.5,
        "ok": False,
        "inputs": "",
    }
    return Row(**{**fields, **changes})


def test_only_shows_the_rows_that_begin_so(here: Any) -> None:
    listed = json.loads(here("figures", "--only", "mux.groups", "--json").out)["rows"]
    assert [entry["id"] for entry in listed] == ["mux.groups.h100", "mux.groups.a100", "mux.groups.h20"]
    table = here("figures", "--only", "mux.groups").out
    assert all(entry["id"] in table for entry in listed)
    assert max(map(len, table.splitlines())) < 160


def test_an_exact_row_that_differs_is_code_1(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "rows", lambda only: [row()])
    shown = here("figures")
    assert shown.code == 1
    assert "differs" in shown.out
    monkeypatch.setattr(figures, "rows", lambda only: [row(kind="model")])
    assert here("figures").code == 0


@pytest.mark.parametrize(
    ("made", "told"),
    [(row(), "+50.0%"), (row(difference=None), "–"), (row(ours="2 ms", difference=0.01), "=")],
)
def test_difference_tells_what_can_be_told(made: Row, told: str) -> None:
    assert difference(made) == told
