"""``twofold figures``."""

from typing import TYPE_CHECKING, Annotated

import typer

from twofold.cli import options
from twofold.cli.progress import progress
from twofold.cli.show import ABSENT, print_json, table

if TYPE_CHECKING:
    from twofold.figures.row import Row

HEAD = ("figure", "what", "chapter", "here", "difference", "kind", "")
DIFFERS = 1

Only = Annotated[
    str | None,
    typer.Option(metavar="ID", help="One row, such as mux.groups, or all rows whose id begins so."),
]


def run(only: Only = None, json: options.Json = False) -> None:
    """Recompute the numbers of the chapters that Twofold implements."""
    from twofold import figures

    with progress():
        rows = figures.rows(only)
    if json:
        print_json({"rows": [row.to_dict() for row in rows]})
    else:
        print(table(HEAD, [cells(row) for row in rows], left=2))
    if any(row.kind == "exact" and not row.ok for row in rows):
        raise typer.Exit(DIFFERS)


def cells(row: "Row") -> tuple[str, ...]:
    """One line of the table; the last cell is a mark where the row does not agree."""
    return (
        row.id,
        row.what,
        row.chapter_value,
        row.ours,
        ABSENT if row.difference is None else f"{row.difference:+.1%}",
        row.kind,
        "" if row.ok else "differs",
    )
