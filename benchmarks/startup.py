"""Start-up: whole processes of the command with a warm compile cache, and proof that they compile nothing."""

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import print_table, verdict
from twofold.compiled import cache_root

TWOFOLD = str(Path(sys.executable).parent / "twofold")
SIMULATE = (
    "simulate --rate 30 --requests 600 --prompt lognormal:755:0.6 --output lognormal:200:0.8 --seed 1 "
    "--model llama-3-8b --device H100 --deploy 1B,prefill-first --json"
)
COMMANDS = (("--help", "--help", 1.0), ("a small simulate", SIMULATE, 1.5))
HEADER = ("twofold", "median s", "best s", "CPU s", "files compiled", "goal s")


def compiled_files() -> int:
    """Machine-code files in the compile cache, of all versions."""
    return sum(1 for _ in (cache_root() / "compiled").rglob("*.nbc"))


def children_cpu_s() -> float:
    """CPU-seconds of all processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds(words: str) -> float:
    """Wall seconds of one process from start to exit."""
    start = time.perf_counter()
    subprocess.run([TWOFOLD, *words.split()], check=True, capture_output=True)
    return time.perf_counter() - start


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one row a command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup", description=__doc__)
    parser.add_argument("--runs", type=int, default=9, help="processes a command, after one that warms the cache")
    options = parser.parse_args(arguments)
    rows = []
    for name, words, goal in COMMANDS:
        seconds(words)
        before, cpu = compiled_files(), children_cpu_s()
        times = [seconds(words) for _ in range(options.runs)]
        median, more = statistics.median(times), compiled_files() - before
        cpu = (children_cpu_s() - cpu) / options.runs
        reached = f"{goal} {verdict(median < goal)}"
        rows.append([name, f"{median:.2f}", f"{min(times):.2f}", f"{cpu:.2f}", f"{more} {verdict(more == 0)}", reached])
    print_table(HEADER, rows)


if __name__ == "__main__":
    main()
