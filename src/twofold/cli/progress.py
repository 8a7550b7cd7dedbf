"""A progress line on standard error while a terminal watches, and nothing otherwise."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[int, int, str], None]
EVENT_LOOP = "loop.run_events"
COMPILES = "compiling the event loop: about a minute, once"


@contextmanager
def progress() -> Iterator[Report | None]:
    """Give a function ``report(done, total, text)``, or None where standard error is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from twofold.compiled import is_cached

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("starting" if is_cached(EVENT_LOOP) else COMPILES, total=None)

        def report(done: int, total: int, text: str) -> None:
            shown.update(task, completed=done, total=total, description=text)

        yield report


def with_time_left(report: Report, expected_s: float, clock: Callable[[], float] = time.monotonic) -> Report:
    """``report``, told too how long it is to the end: as expected until something is done, then as it went so far."""
    began = clock()

    def tell(done: int, total: int, text: str) -> None:
        nonlocal began
        now = clock()
        if done == 0:
            began = now
        left = (now - began) / done * (total - done) if done else expected_s
        report(done, total, f"{text}, about {duration(left)} left")

    return tell


def duration(seconds: float) -> str:
    """Seconds as people say them: ``40 s``, ``3 min``."""
    return f"{max(1, round(seconds))} s" if seconds < 90 else f"{round(seconds / 60)} min"
