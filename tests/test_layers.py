"""The shape of the house: who may import whom, who may print, and how long a file or a function may be."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "twofold"
FILES = sorted(SOURCE.rglob("*.py"))
NAMES = [str(path.relative_to(SOURCE)) for path in FILES]
ORDER = (
    "errors verbs cached compiled reference spec cost scheduler simulate engine "
    "plan serve clients figures validate clocks doctor cli __init__ __main__"
)
FLOORS = {floor: height for height, floor in enumerate(ORDER.split())}
SCREEN = {"typer", "rich", "print"}
HEAVY = {"numba", "numpy", "polars", "pydantic", "altair", "rich", "yaml"}
LONGEST_FILE, LONGEST_FUNCTION = 300, 60
MACHINE_PATH = re.compile(r"""["'\s(]/(?:work|tmp|root|home)/""")

each_file = pytest.mark.parametrize("path", FILES, ids=NAMES)


def floor_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def used_on_screen(tree: ast.AST) -> set[str]:
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    return SCREEN & (called | {name.partition(".")[0] for name in imported(tree)})


@each_file
def test_imports_only_from_floors_below(path: Path) -> None:
    floor = floor_of(path)
    own = FLOORS[floor]
    for name in imported(ast.parse(path.read_text())):
        package, _, rest = name.partition(".")
        if package == "twofold" and (target := rest.partition(".")[0]) in FLOORS:
            assert target == floor or FLOORS[target] < own, f"{floor} imports {name}"


@each_file
def test_the_two_clocks_know_nothing_of_each_other(path: Path) -> None:
    if floor_of(path) == "engine":
        assert [name for name in imported(ast.parse(path.read_text())) if name.startswith("twofold.simulate")] == []


@each_file
def test_only_the_cli_prints(path: Path) -> None:
    if floor_of(path) != "cli":
        assert used_on_screen(ast.parse(path.read_text())) == set()


@each_file
def test_file_is_short_and_says_what_it_is(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= LONGEST_FILE
    assert not text.strip() or ast.get_docstring(ast.parse(text))


@each_file
def test_whatever_is_public_has_a_docstring(path: Path) -> None:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), node.name


@each_file
def test_every_floor_is_known(path: Path) -> None:
    assert floor_of(path) in FLOORS


@each_file
def test_functions_fit_a_screen(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            assert (node.end_lineno or 0) - node.lineno < LONGEST_FUNCTION, node.name


@each_file
def test_no_machine_path(path: Path) -> None:
    assert not MACHINE_PATH.search(path.read_text())


def test_imports_may_not_use_dots() -> None:
    relative = [
        str(path)
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert relative == []


def test_the_command_starts_without_heavy_libraries() -> None:
    code = "import sys, twofold.cli.main; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert HEAVY & set(loaded.split()) == set()
