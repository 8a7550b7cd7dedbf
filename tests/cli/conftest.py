"""Runs the command: as a process of its own, or (much faster) here."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from twofold.cli.main import main

Command = Callable[..., subprocess.CompletedProcess[str]]
TWOFOLD = Path(sys.executable).parent / "twofold"


class Shown(NamedTuple):
    """What a command has given: its exit code, standard output and standard error."""

    code: int
    out: str
    err: str


@pytest.fixture
def twofold(tmp_path: Path) -> Command:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [TWOFOLD, *arguments], capture_output=True, text=True, cwd=tmp_path, stdin=subprocess.DEVNULL
        )

    return run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Shown]:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Shown:
        code = main(arguments)
        return Shown(code, *capsys.readouterr())

    return run
