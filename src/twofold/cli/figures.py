"""``twofold figures``."""

from typing import TYPE_CHECKING, Annotated

import typer

from twofold.cli import options
from twofold.cli.progress import progress
from twofold.cli.show import ABSENT, print_json, spared, table

if TYPE_CHECKING:
    from twofold.figures.row import Row

HEAD = ("figure", "what", "chapter", "here", "difference", "kind", "")
DIFFERS = 1
WIDEST = 40

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
        print(table(HEAD, [cells(row) for row in rows], left=(0, 1), widest=WIDEST, spare=spared(HEAD, ["kind"])))
    if any(row.kind == "exact" and not row.ok for row in rows):
        raise typer.Exit(DIFFERS)


def cells(row: "Row") -> tuple[str, ...]:
    """One line of the table; the last cell is a mark where the row does not agree."""
    return (
        row.id,
        row.what,
        row.chapter_value,
        row.ours,
        difference(row),
        row.kind,
        "" if row.ok else "differs",
    )


def difference(row: "Row") -> str:
    """How far off ours is; nothing to tell where it reads like the chapter's value."""
    if row.ours == row.chapter_value or row.difference is None:
        return "=" if row.ours == row.chapter_value else ABSENT
    return f"{row.difference:+.1%}"
