"""Runs the command: as a process of its own, or (much faster) here."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from twofold.cli.main import main
from twofold.spec import catalog

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


@pytest.fixture
def profile_file(tmp_path: Path) -> str:
    """Steps up to 512 tokens, 8 decodes and contexts of 1,024; 512 prompt tokens alone take 21 ms."""
    entry = {
        "dense": [[1, 6e-3], [512, 2e-2]],
        "prompt_attention": {"pair_s": 1e-8},
        "decode_attention": [[1, 128, 1e-4], [1, 1024, 2e-4], [8, 128, 3e-4], [8, 1024, 9e-4]],
    }
    specs = {"model": catalog.model("llama-3-8b").model_dump(), "device": catalog.device("H100").model_dump()}
    path = tmp_path / "own.json"
    path.write_text(json.dumps({"twofold_cost": 1, **specs, "entries": [entry]}))
    return str(path)
