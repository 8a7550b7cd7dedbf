"""A progress line on standard error while a terminal watches, and nothing otherwise."""

import sys
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
