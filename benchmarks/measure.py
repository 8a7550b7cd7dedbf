"""Measuring a call and printing a table."""

import resource
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Times(NamedTuple):
    """Seconds of several calls of one function, on the wall and of this process's CPU."""

    wall_s: list[float]
    cpu_s: list[float]

    @property
    def best_s(self) -> float:
        """Least CPU-seconds of a call."""
        return min(self.cpu_s)

    @property
    def median_s(self) -> float:
        """Median of the CPU-seconds of the calls."""
        return statistics.median(self.cpu_s)


def timed(call: Callable[[], object], runs: int) -> Times:
    """Call ``call`` so many times."""
    times = Times([], [])
    for _ in range(runs):
        wall, cpu = time.perf_counter(), time.process_time()
        call()
        times.cpu_s.append(time.process_time() - cpu)
        times.wall_s.append(time.perf_counter() - wall)
    return times


def peak_gib() -> float:
    """Largest resident memory that this process has had, GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def verdict(reached: bool) -> str:
    """A word for the last column of a table."""
    return "reached" if reached else "MISSED"


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print aligned columns: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, ["-" * width for width in widths], *rows):
        cells = [f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  ".join([f"{row[0]:<{widths[0]}}", *cells]))
