"""Closed-loop load on a command line: its flag, and what does not go with it."""

from typing import Annotated

import typer

from twofold.errors import SpecError

ANY_RATE = "1"
"""Made requests need some rate; a closed loop leaves their times aside."""

Concurrency = Annotated[
    int | None,
    typer.Option(metavar="N", help="Keep N requests under way, whatever their times of arrival.", min=1),
]


def rate_of(concurrency: int | None, source: str | None, rate: str | None, **times: str | None) -> str | None:
    """The rate as given, or in a closed loop any to make requests at; SpecError there for a flag that sets times."""
    if concurrency is None:
        return rate
    for name, value in {"rate": rate, **times}.items():
        if value is not None:
            raise SpecError(f"--{name}", value, "with --concurrency requests follow one another; leave one of them out")
    return ANY_RATE if source is None else None
