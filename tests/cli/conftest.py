"""Runs the real command."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]
TWOFOLD = Path(sys.executable).parent / "twofold"


@pytest.fixture
def twofold(tmp_path: Path) -> Command:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [TWOFOLD, *arguments], capture_output=True, text=True, cwd=tmp_path, stdin=subprocess.DEVNULL
        )

    return run
