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


def test_the_folder_may_be_told_by_the_environment(here: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWOFOLD_DATA", str(tmp_path))
    shown = here("validate")
    assert shown.code == 0
    assert "h200: skipped" in shown.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--data", "nowhere"), "--data"),
        (("--data", ".", "--only", "nothing"), "--only"),
        (("--data", ".", "--report", "page.pdf"), "--report"),
    ],
)
def test_bad_input_is_one_line_and_code_2(here: Any, arguments: tuple[str, ...], said: str) -> None:
    shown = here("validate", *arguments)
    assert shown.code == 2
    assert said in shown.err
    assert len(shown.err.splitlines()) == 1
