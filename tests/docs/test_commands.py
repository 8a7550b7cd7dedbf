"""Every command that a document shows runs, and prints what the document says that it prints."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


console = load(Path(__file__).with_name("console.py"))
CASES = [
    pytest.param(document, number, id=f"{document.stem}-{number}")
    for document in DOCUMENTS
    for number in range(len(console.all_commands(document)))
]


@pytest.mark.parametrize(("document", "number"), CASES)
def test_command_prints_what_is_shown(document: Path, number: int, tmp_path: Path) -> None:
    console.write_files(document, tmp_path)
    command = console.all_commands(document)[number]
    code, printed = console.run(command, tmp_path)
    assert code == (2 if console.refused(command) else 0), printed
    assert "No such option" not in printed
    assert command.shown is None or console.matches(command.shown, printed), printed


SNIPPETS = [
    pytest.param(fence.text, id=f"{document.stem}-{number}")
    for document in DOCUMENTS
    for number, fence in enumerate(console.fences(document))
    if fence.language == "python" and fence.title is None
]


@pytest.mark.parametrize("code", SNIPPETS)
def test_python_runs(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(code, "snippet", "exec"), {})
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [("a\nb", "a\nb", True), ("a\n...\nc", "a\nb\nb\nc", True), ("a\nc", "a\nb\nc", False), ("a*", "aa", False)],
)
def test_elision_stands_for_lines(shown: str, printed: str, same: bool) -> None:
    assert console.matches(shown, printed) == same
