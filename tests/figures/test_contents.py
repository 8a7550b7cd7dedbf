"""The rows of the two chapters: exact rows equal, model rows near, and only those asked for are computed."""

from importlib import import_module
from types import ModuleType

import pytest

from twofold.errors import SpecError
from twofold.figures import FIGURES, contents, rows

EXACT = [figure.id for figure in FIGURES if figure.kind == "exact"]
MODEL = [figure.id for figure in FIGURES if figure.kind == "model"]
DIFFER = {
    "3.5.algorithm-1.decode-tp8",
    "3.5.instances.large",
    "4.3.older-devices.slow-down",
    "6.3.planner.wrong-split",
    "6.3.planner.colocated",
}
"""What does not come out; each row's inputs say what is known of why."""


@pytest.mark.parametrize("figure", EXACT)
def test_exact_rows_print_what_the_chapter_prints(figure: str) -> None:
    for row in rows(figure):
        assert row.kind == "exact"
        assert row.ok, f"{row.id}: {row.ours}, not {row.chapter_value}"


@pytest.mark.parametrize("figure", MODEL)
def test_model_rows_are_near_the_chapter_but_for_those_known_to_differ(figure: str) -> None:
    for row in rows(figure):
        assert row.kind == "model"
        assert row.ok == (row.id not in DIFFER), f"{row.id}: {row.ours}, chapter {row.chapter_value}"


def test_rows_known_to_differ_are_rows() -> None:
    assert all(any(name.startswith(f"{figure}.") for figure in MODEL) for name in DIFFER)


def test_ids_are_unique_and_begin_with_their_figure() -> None:
    found = [row.id for figure in FIGURES if figure.id.startswith("mux") for row in figure.rows()]
    assert len(set(found)) == len(found)
    assert all(identifier.startswith("mux.") for identifier in found)


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        ("mux.choice.decode-only", ["mux.choice.decode-only"]),
        ("3.4", ["3.4.kv.gb", "3.4.kv.gib", "3.4.kv.bandwidth"]),
        (["mux.activations", "mux.layers"], ["mux.layers", "mux.activations"]),
    ],
)
def test_only_keeps_the_rows_that_it_names(only: str | list[str], expected: list[str]) -> None:
    assert [row.id for row in rows(only)] == expected


def test_only_what_is_asked_for_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []

    def watched(name: str) -> ModuleType:
        loaded.append(name)
        return import_module(name)

    monkeypatch.setattr(contents, "import_module", watched)
    rows("3.2")
    assert loaded == ["twofold.figures.queues"]


@pytest.mark.parametrize("name", ["9.9", "mux.choice.nothing", "mu", "1.2.interference-no"])
def test_a_name_without_rows_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match="only") as error:
        rows(name)
    assert "2.2.free-compute" in str(error.value)


def test_a_row_becomes_plain_values() -> None:
    (row,) = rows("mux.layers")
    assert row.to_dict()["ours"] == "36 8 2 1"
    assert row.to_dict()["difference"] == 0.0
