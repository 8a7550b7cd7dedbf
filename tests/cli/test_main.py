import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

TWOFOLD = Path(sys.executable).parent / "twofold"
Command = Callable[..., subprocess.CompletedProcess[str]]


def test_help_names_every_verb(twofold: Command) -> None:
    shown = twofold("--help")
    assert shown.returncode == 0
    for verb in ("simulate", "plan", "compare", "figures", "models", "devices", "links", "version"):
        assert verb in shown.stdout


def test_no_arguments_is_help(twofold: Command) -> None:
    assert twofold().stdout == twofold("--help").stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["modles"], "models"),
        (["models", "--jsn"], "--json"),
        (["models", "llama-3-8c"], "llama-3-8b"),
        (["devices", "H1000"], "H100"),
        (["simulate", "--requests", "many"], "many"),
    ],
)
def test_bad_input_is_one_line_and_code_2(twofold: Command, arguments: list[str], told: str) -> None:
    shown = twofold(*arguments)
    assert shown.returncode == 2
    assert shown.stdout == ""
    assert shown.stderr.startswith("twofold: ")
    assert shown.stderr.count("\n") == 1
    assert told in shown.stderr


def test_version(twofold: Command) -> None:
    assert twofold("version").stdout == twofold("--version").stdout == "twofold 0.1.0\n"


def test_a_reader_that_leaves_is_no_error() -> None:
    started = subprocess.Popen([TWOFOLD, "models"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert started.stdout is not None
    started.stdout.close()
    _, told = started.communicate()
    assert told == b""


def test_an_interrupt_is_one_line_and_code_130() -> None:
    command = [TWOFOLD, "simulate", "--rate", "50", "--requests", "3000000", "--model", "llama-3-8b"]
    started = subprocess.Popen(
        [*command, "--device", "H100", "--deploy", "4B"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    time.sleep(1.5)
    os.kill(started.pid, signal.SIGINT)
    shown, told = started.communicate(timeout=30)
    assert started.returncode == 130
    assert (shown, told) == (b"", b"twofold: interrupted\n")
