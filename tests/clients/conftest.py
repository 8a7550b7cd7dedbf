"""The fake server as a process of its own."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from twofold.cli.main import main
from twofold.spec.workload import Workload

FAKE = Path(__file__).with_name("fake_server.py")


class Fake(NamedTuple):
    """A fake server that runs: its URL, and a question for what it has seen since it was last asked."""

    url: str

    def recall(self) -> Any:
        with urlopen(f"{self.url}/recall") as answer:
            return json.load(answer)


class Shown(NamedTuple):
    """What a command has given: its exit code, standard output and standard error."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def running() -> Iterator[Fake]:
    with subprocess.Popen([sys.executable, FAKE], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        try:
            yield Fake(f"http://127.0.0.1:{port}")
        finally:
            process.kill()


@pytest.fixture
def fake(running: Fake) -> Fake:
    running.recall()
    return running


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Shown]:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Shown:
        return Shown(main(arguments), *capsys.readouterr())

    return run


@pytest.fixture
def make() -> Callable[..., Workload]:
    """A workload of these output lengths that arrives at ``gap_s`` apart, all prompts of ``prompt`` tokens."""

    def made(outputs: list[int], gap_s: float = 0.02, prompt: int = 40) -> Workload:
        count = len(outputs)
        arrivals = 0.3 + gap_s * np.arange(count)
        return Workload("made", arrivals, np.full(count, prompt, np.int32), np.array(outputs, np.int32))

    return made
