"""The engine against what users would pick, on SmolLM2-135M: each in a process of its own, in turns, as ratios.

Every round gives a case to one engine after the other, so that what else the machine does hits all of them; a ratio is
the median of those of the rounds. ``limits`` is this machine: its matrix products, and a read of all weights a token.
Ours runs in the environment that a worker of ``twofold serve`` gets, the others in the one that is given.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from benchmarks.engine_sides import Marks
from benchmarks.measure import print_table, verdict
from twofold.engine.environment import surrounded

ROOT = Path(__file__).parent.parent
OURS = "twofold"
HEADER = ("case, engine", "tok/s", "tok / CPU-s", "x here", "x CPU-s", "goal")


class Case(NamedTuple):
    """Requests that come together: tokens of each prompt and output. ``rate`` is of prompt, decode or all outputs."""

    name: str
    rate: str
    prompts: tuple[int, ...]
    outputs: tuple[int, ...]
    goals: dict[str, float]

    def rates(self, marks: Marks) -> tuple[float, float]:
        """Tokens a second, on the wall and of CPU time."""
        pairs = zip(marks.first, marks.last, strict=True)
        if self.rate == "prompt":
            tokens, seconds = sum(self.prompts), [first for first, _ in pairs]
        elif self.rate == "decode":
            tokens, seconds = sum(self.outputs) - len(self.outputs), [last - first for first, last in pairs]
        else:
            tokens, seconds = sum(self.outputs), [last for _, last in pairs]
        return tokens / seconds[0], tokens / seconds[1]


CASES = (
    Case("decode of one stream", "decode", (16,), (65,), {"transformers": 2.0, "vllm": 2.0, "limits": 0.7}),
    Case("prompt of 512", "prompt", (512,), (1,), {"transformers": 1.2, "limits": 0.85}),
    Case(
        "16 streams, mixed lengths",
        "all",
        tuple(16 + 17 * (7 * i % 16) for i in range(16)),
        tuple(8 + 7 * (5 * i % 16) for i in range(16)),
        {"transformers": 2.5},
    ),
    Case("8 streams of 256 / 64", "all", (256,) * 8, (64,) * 8, {"vllm": 1.4}),
)


class Side:
    """An engine in a process, which answers one case at a time; it ends with the context."""

    def __init__(self, name: str, python: str, model: str, threads: int) -> None:
        self.name = name
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        path = os.pathsep.join([str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]).strip(os.pathsep)
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.engine_sides", name, model, str(threads)],
            env=(surrounded(os.environ) if name.startswith(OURS) else dict(os.environ)) | {"PYTHONPATH": path},
            cwd=tempfile.gettempdir(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def __enter__(self) -> Side:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def ready(self) -> str:
        """Wait until it has started: nothing, or why it has not."""
        if self._process.stdout is not None and self._process.stdout.readline() == "ready\n":
            return ""
        self._process.wait()
        self._errors.seek(0)
        return (self._errors.read().strip().splitlines() or ["it gave no reason"])[-1]

    def run(self, case: Case) -> Marks:
        """One run of a case; RuntimeError if the engine does not survive it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"prompts": case.prompts, "outputs": case.outputs}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.name} ended during {case.name}")
        first, last, scheduling = json.loads(answer)
        return Marks(tuple(first), tuple(last), scheduling)  # type: ignore[arg-type]


def measured(case: Case, sides: Sequence[Side], rounds: int) -> dict[str, list[Marks]]:
    """What each engine gave in each round, after one that is not counted; the order turns from round to round."""
    marks: dict[str, list[Marks]] = {side.name: [] for side in sides}
    for number in range(rounds + 1):
        turned = [*sides[number % len(sides) :], *sides[: number % len(sides)]]
        for side in turned:
            found = side.run(case)
            if number:
                marks[side.name].append(found)
    return marks


def rows_of(case: Case, marks: dict[str, list[Marks]]) -> list[list[str]]:
    """A row an engine: its rates, and by how much ours is faster than it."""
    rates = {name: [case.rates(each) for each in runs] for name, runs in marks.items()}
    rows = []
    for name, theirs in rates.items():
        wall, cpu = (statistics.median(each) for each in zip(*theirs, strict=True))
        pairs = [(ours[0] / other[0], ours[1] / other[1]) for ours, other in zip(rates[OURS], theirs, strict=True)]
        ratio, cpu_ratio = (statistics.median(each) for each in zip(*pairs, strict=True))
        goal = case.goals.get(name)
        reached = "" if goal is None else f"{goal} {verdict(ratio >= goal)}"
        ratios = ["", ""] if name == OURS else [f"{ratio:.2f}", f"{cpu_ratio:.2f}"]
        rows.append([f"{case.name}, {name}", f"{wall:.1f}", f"{cpu:.1f}", *ratios, reached])
    return rows


def scheduling(marks: Sequence[Marks]) -> float:
    """The median share of our runs that went into planning and committing steps."""
    return statistics.median(each.scheduling or 0.0 for each in marks)


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine", description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3, help="counted ones, after one that warms")
    parser.add_argument("--case", type=int, action="append", choices=range(len(CASES)), help="only these, by number")
    parser.add_argument(
        "--side", action="append", help="only these beside ours, such as transformers or 'twofold int8'"
    )
    parser.add_argument("--vllm", metavar="PYTHON", help="an interpreter that imports vllm")
    parser.add_argument("--llama", metavar="PYTHON", help="an interpreter that imports xllamacpp")
    return parser.parse_args(arguments)


def contenders(options: argparse.Namespace) -> dict[str, tuple[str, str]]:
    """Interpreter and model of each engine that was asked for; empty where there is no interpreter."""
    from twofold.engine.load import DEFAULT, default_file, located

    folder, _ = located(DEFAULT, lambda text, share: None)
    own, plain = sys.executable, str(folder)
    found = dict.fromkeys(("transformers", "limits", "twofold bf16", "twofold int8"), (own, plain))
    found |= {"vllm": (options.vllm or "", plain), "llama.cpp": (options.llama or "", str(default_file()))}
    wanted = options.side or list(found)
    return {OURS: (own, plain)} | {name: each for name, each in found.items() if name in wanted}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one row a case and engine, and what could not be measured."""
    options = parsed(arguments)
    with ExitStack() as stack:
        sides = []
        for name, (python, model) in contenders(options).items():
            if not python:
                print(f"{name}: not measured, as no interpreter was given that has it")
                continue
            side = stack.enter_context(Side(name, python, model, options.threads))
            if reason := side.ready():
                print(f"{name}: not measured ({reason})")
            else:
                sides.append(side)
        rows, shares = [], []
        for number in options.case or range(len(CASES)):
            case = CASES[number]
            marks = measured(
                case, [each for each in sides if each.name != "limits" or "limits" in case.goals], options.rounds
            )
            rows += rows_of(case, marks)
            shares.append(f"{case.name} {scheduling(marks[OURS]):.1%}")
        print_table(HEADER, rows)
        print(f"\nours, planning and committing: {'; '.join(shares)} (goal 2 %)")


if __name__ == "__main__":
    main()
