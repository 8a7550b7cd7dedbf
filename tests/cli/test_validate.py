import json
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture
def data() -> str:
    if not DATA.is_dir():
        pytest.skip("the shared data are not here")
    return str(DATA)


def test_one_set_as_a_table_and_as_json(here: Any, data: str) -> None:
    shown = here("validate", "--only", "h200", "--data", data)
    assert shown.code == 0
    assert "prefill, mean absolute error of 8" in shown.out
    assert max(map(len, shown.out.splitlines())) < 160
    found = json.loads(here("validate", "--only", "h200", "--data", data, "--json").out)
    assert [each["id"] for each in found["sets"]] == ["h200"]


@pytest.mark.parametrize("name", ["page.md", "page.html"])
def test_a_report_is_written(here: Any, data: str, tmp_path: Path, name: str) -> None:
    assert here("validate", "--only", "h200", "--data", data, "--report", name).code == 0
    assert "H200" in (tmp_path / name).read_text(encoding="utf-8")


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A folder with one set, which cannot be read."""
    folder = tmp_path / "measured"
    (folder / "vllm_runs" / "empty").mkdir(parents=True)
    return folder


def test_the_folder_may_be_told_by_the_environment(here: Any, damaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOFOLD_DATA", str(damaged))
    assert "h200: skipped" in here("validate").err


@pytest.mark.parametrize("flags", [(), ("--only", "h200"), ("--json",)])
def test_when_no_set_could_be_predicted_each_has_its_reason_and_the_code_is_2(
    here: Any, damaged: Path, flags: tuple[str, ...]
) -> None:
    shown = here("validate", "--data", str(damaged), *flags)
    assert shown.code == 2
    assert "twofold: h200: skipped, no silicon in measured\n" in shown.err
    assert (shown.out == "") == ("--json" not in flags)


def test_a_folder_without_any_set_is_told_what_one_has(here: Any, tmp_path: Path) -> None:
    (tmp_path / "junk").mkdir()
    (tmp_path / "junk" / "notes.txt").write_text("nothing measured")
    shown = here("validate", "--data", "junk")
    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert "accepted: a folder with distserve, silicon, splitwise/perf_model.csv or vllm_runs/*" in shown.err


def test_without_data_it_says_how_to_give_some(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TWOFOLD_DATA", raising=False)
    shown = here("validate")
    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert all(said in shown.err for said in ("--data", "vllm_runs", "--own"))


@pytest.mark.parametrize("columns", [80, 100])
def test_its_tables_fit_a_terminal(here: Any, data: str, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr("twofold.cli.show.room", lambda: columns)
    title, *rows = here("validate", "--only", "h200", "--data", data).out.splitlines()
    assert title.startswith("h200:")
    assert max(map(len, rows)) <= columns


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--data", "nowhere"), "--data"),
        (("--data", "measured", "--only", "nothing"), "--only"),
        (("--data", "measured", "--report", "page.pdf"), "--report"),
    ],
)
def test_bad_input_is_one_line_and_code_2(here: Any, damaged: Path, arguments: tuple[str, ...], said: str) -> None:
    shown = here("validate", *arguments)
    assert shown.code == 2
    assert said in shown.err
    assert len(shown.err.splitlines()) == 1
