"""A progress line on standard error while a terminal watches, and nothing otherwise."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[int, int, str], None]


@contextmanager
def progress() -> Iterator[Report | None]:
    """Give a function ``report(done, total, text)``, or None where standard error is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("starting (the first run compiles, which takes a while)", total=None)

        def report(done: int, total: int, text: str) -> None:
            shown.update(task, completed=done, total=total, description=text)

        yield report
