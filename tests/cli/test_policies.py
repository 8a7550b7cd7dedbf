import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ON_H100 = ("--requests", "40", "--model", "llama-3-8b", "--device", "H100")
GOOD = """
import twofold
from twofold.scheduler.fill import take_decodes, take_prompts

@twofold.policy("{name}")
def fill(s, r, k):
    take_decodes(s, r, k)
    take_prompts(s, r, k, True)
    return 0
"""


@pytest.fixture
def policy_file(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        (tmp_path / "mine.py").write_text(text)
        return "mine.py"

    return write


def test_a_policy_of_a_file_runs_beside_others(here: Any, policy_file: Callable[[str], str]) -> None:
    file = policy_file(GOOD.format(name="my-mixed"))
    deployments = ("--deploy", "1B,policy=my-mixed", "--deploy", "1B,mixed")
    shown = here("compare", "sample", *ON_H100, "--policy-file", file, *deployments, "--json")
    mine, builtin = json.loads(shown.out)["deployments"]
    assert mine["deployment"] == "1B,policy=my-mixed"
    assert mine["e2e_s"] == builtin["e2e_s"]


def test_it_may_import_what_lies_beside_it(here: Any, policy_file: Callable[[str], str], tmp_path: Path) -> None:
    (tmp_path / "beside_the_policy.py").write_text('NAME = "beside"\n')
    file = policy_file("from beside_the_policy import NAME\n" + GOOD.replace('"{name}"', "NAME"))
    shown = here("simulate", "sample", *ON_H100, "--policy-file", file, "--deploy", "1B,policy=beside", "--json")
    assert json.loads(shown.out)["completed"] == 40


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1", "must register a policy"),
        ("x = ", "fails in line 1: SyntaxError"),
        ("\nraise KeyError('boom')", "fails in line 2: KeyError: 'boom'"),
        ("import sys\nsys.exit(3)", "fails in line 2: SystemExit"),
        ("import no_such_module_anywhere", "no_such_module_anywhere"),
        (GOOD.format(name="mixed"), "mixed is a policy of Twofold"),
        (GOOD.format(name="two-arguments").replace("s, r, k)", "s, r)", 1), "a policy takes 3"),
    ],
)
def test_a_broken_file_is_one_line(here: Any, policy_file: Callable[[str], str], text: str, told: str) -> None:
    shown = here("simulate", "sample", *ON_H100, "--policy-file", policy_file(text), "--deploy", "1B")
    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert "--policy-file: 'mine.py'" in shown.err
    assert told in shown.err


def test_a_policy_that_cannot_be_compiled_is_one_line(here: Any, policy_file: Callable[[str], str]) -> None:
    file = policy_file(GOOD.format(name="uncompilable").replace("return 0", "return s.no_such_field[r]"))
    shown = here("simulate", "sample", *ON_H100, "--policy-file", file, "--deploy", "1B,policy=uncompilable")
    assert (shown.code, shown.err.count("\n")) == (2, 1)
    assert "no_such_field" in shown.err
    assert "line 9" in shown.err


@pytest.mark.parametrize(("name", "told"), [("none.py", "no such file"), ("notes.txt", "ends in .py")])
def test_a_file_that_is_no_python_is_one_line(here: Any, tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / "notes.txt").touch()
    shown = here("simulate", "sample", *ON_H100, "--policy-file", name, "--deploy", "1B")
    assert (shown.code, shown.err.count("\n")) == (2, 1)
    assert told in shown.err
