"""The commands that documents show, with what they print. Run as a script it writes the outputs anew:

python tests/docs/console.py README.md docs/quickstart.md

A fence ``console`` holds commands after ``$ `` and their output; a line ``...`` stands for any lines. In fences ``sh``
lines that begin with ``twofold`` are commands without output. A fence with ``title=NAME`` is the file of that name.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

FENCE = re.compile(r"^```(\w+)(?: title=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAM = re.compile(r"(?:[A-Z_]+=\S+ )*twofold ")
VARIABLE = re.compile(r"[A-Z_]+=\S*")
CONTINUED, ELISION = "\\\n", "..."


class Command(NamedTuple):
    """A command as it is written, and the output that is shown; None where none is."""

    text: str
    shown: str | None


class Fence(NamedTuple):
    """A fenced block: its language, the file that it is (or None) and its text."""

    language: str
    title: str | None
    text: str


def fences(document: Path) -> list[Fence]:
    return [Fence(*found.groups()) for found in FENCE.finditer(document.read_text(encoding="utf-8"))]


def commands(fence: Fence) -> list[Command]:
    if fence.language == "sh":
        lines = re.findall(r"^(?:.*\\\n)*.*$", fence.text, re.MULTILINE)
        return [Command(line, None) for line in lines if PROGRAM.match(line)]
    if fence.language == "console":
        return [_console(part) for part in re.split(r"^\$ ", fence.text, flags=re.MULTILINE)[1:]]
    return []


def _console(part: str) -> Command:
    lines = part.splitlines(keepends=True)
    last = next(i for i, line in enumerate(lines) if not line.endswith(CONTINUED))
    return Command("".join(lines[: last + 1]).rstrip("\n"), "".join(lines[last + 1 :]).rstrip())


def all_commands(document: Path) -> list[Command]:
    return [command for fence in fences(document) for command in commands(fence)]


def write_files(document: Path, folder: Path) -> None:
    for fence in fences(document):
        if fence.title:
            (folder / fence.title).write_text(fence.text, encoding="utf-8")


def run(command: Command, folder: Path) -> tuple[int, str]:
    """Exit code, and all that was printed."""
    words = shlex.split(command.text.replace(CONTINUED, " "), comments=True)
    variables = [word for word in words if VARIABLE.fullmatch(word)]
    program, *arguments = words[len(variables) :]
    finished = subprocess.run(
        [Path(sys.executable).parent / program, *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        env=os.environ | dict(variable.split("=", 1) for variable in variables),
    )
    return finished.returncode, (finished.stdout + finished.stderr).rstrip()


def refused(command: Command) -> bool:
    """Whether the document shows the refusal of bad input."""
    return command.shown is not None and command.shown.startswith("twofold: ")


def matches(shown: str, printed: str) -> bool:
    pieces = [re.escape(line) + r"\n" if line != ELISION else r"(?:.*\n)*?" for line in shown.splitlines()]
    return re.fullmatch("".join(pieces), printed.rstrip() + "\n") is not None


def rewrite(document: Path) -> None:
    """Put what is printed now in place of what a document shows; abridged outputs must still match."""
    text = document.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        write_files(document, Path(folder))
        for command in all_commands(document):
            code, printed = run(command, Path(folder))
            if code and not refused(command):
                print(f"{document}: exit code {code}: {command.text}\n{printed}")
            elif command.shown is None:
                continue
            elif ELISION not in command.shown.splitlines():
                before = f"$ {command.text}\n{command.shown}\n" if command.shown else f"$ {command.text}\n"
                text = text.replace(before, f"$ {command.text}\n{printed}\n", 1)
            elif not matches(command.shown, printed):
                print(f"{document}: differs, rewrite by hand: {command.text}\n{printed}")
    document.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        rewrite(Path(name))
