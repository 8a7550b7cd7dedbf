import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from terminal import terminal

TWOFOLD = Path(sys.executable).parent / "twofold"
Command = Callable[..., subprocess.CompletedProcess[str]]
ON_H100 = ("--model", "llama-3-8b", "--device", "H100")
ENDLESS = ("simulate", "--rate", "200", "--requests", "1000000", *ON_H100, "--deploy", "4B")


def test_help_names_every_verb(twofold: Command) -> None:
    shown = twofold("--help")
    assert shown.returncode == 0
    for verb in ("simulate", "plan", "compare", "figures", "models", "devices", "links", "version"):
        assert verb in shown.stdout


def test_no_arguments_is_help(twofold: Command) -> None:
    assert twofold().stdout == twofold("--help").stdout


@pytest.mark.parametrize("verb", ["simulate", "plan", "compare", "figures", "models", "devices", "links", "version"])
def test_every_verb_explains_itself(here: Any, verb: str) -> None:
    for flag in ("--help", "-h"):
        shown = here(verb, flag)
        assert shown.code == 0
        assert f"twofold {verb}" in shown.out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["modles"], "models"),
        (["models", "--jsn"], "--json"),
        (["models", "llama-3-8c"], "Llama-3-8B"),
        (["models", "llama-3-8b", "mistral-7b"], "mistral-7b"),
        (["devices", "H1000"], "H100"),
        (["links", "NVLinks"], "twofold links"),
        (["figures", "--only", "nothing"], "mux.groups"),
        (["simulate", "sample", "--requests", "many"], "many"),
        (["simulate", "--deploy"], "--deploy"),
    ],
)
def test_bad_input_is_one_line_and_code_2(here: Any, arguments: list[str], told: str) -> None:
    shown = here(*arguments)
    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert shown.err.startswith("twofold: ")
    assert told in shown.err


def test_the_process_exits_with_the_code(twofold: Command) -> None:
    shown = twofold("devices", "H1000")
    assert (shown.returncode, shown.stdout, shown.stderr.count("\n")) == (2, "", 1)


def test_version(twofold: Command) -> None:
    assert twofold("version").stdout == twofold("--version").stdout == "twofold 0.1.0\n"


def test_a_reader_that_leaves_is_no_error() -> None:
    started = subprocess.Popen([TWOFOLD, "models"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert started.stdout is not None
    started.stdout.close()
    _, told = started.communicate(timeout=60)
    assert told == b""


def test_a_full_disk_is_one_line(twofold: Command) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no device that is always full")
    with full.open("w") as target:
        ended = subprocess.run([TWOFOLD, "models"], stdout=target, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1


def loads(process: "subprocess.Popen[bytes]", library: str, limit_s: float = 60.0) -> None:
    """Wait until ``process`` has begun to load a compiled library of that name."""
    end = time.monotonic() + limit_s
    while library not in Path(f"/proc/{process.pid}/maps").read_text():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc to see what a process has loaded")
def test_an_interrupt_while_it_starts_is_one_line_and_code_130() -> None:
    started = subprocess.Popen([TWOFOLD, *ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    loads(started, "numpy")
    os.kill(started.pid, signal.SIGINT)
    assert started.communicate(timeout=60) == (b"", b"twofold: interrupted\n")
    assert started.returncode == 130


def test_a_terminal_sees_progress_on_standard_error_only() -> None:
    with terminal() as shown:
        started = subprocess.Popen([TWOFOLD, *ENDLESS], stdout=subprocess.PIPE, stderr=shown.inside)
        shown.leave_inside()
        shown.wait_for("s simulated")
        os.kill(started.pid, signal.SIGINT)
        shown.wait_for("twofold: interrupted")
        assert started.communicate(timeout=60)[0] == b""
    assert started.returncode == 130
