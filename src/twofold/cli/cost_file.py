"""Writing a cost file after minutes of measuring: checked before, told of meanwhile, whole or not at all."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from twofold.cli.progress import Report
from twofold.errors import SpecError

ENDING = ".json"
PARTS = 1000
NUMBERS = re.compile(r"\[\n([^][{}\"]*)]")

Out = Annotated[
    Path,
    typer.Option(
        "-o", "--out", metavar=f"FILE{ENDING}", help="The cost file, for --cost of simulate, compare and plan."
    ),
]


def teller(report: Report | None, check: Callable[[], None]) -> Callable[[str, float], None]:
    """Tells ``report`` what is done and the share of it; ``check`` is called each time, and may end it."""

    def tell(text: str, share: float) -> None:
        check()
        if report is not None:
            report(round(share * PARTS), PARTS, text)

    return tell


def check_writable(path: Path) -> None:
    """Before minutes of measuring: SpecError for a file that could not be written after them."""
    if path.suffix != ENDING:
        raise SpecError("--out", str(path), f"a file that ends in {ENDING}")
    if path.is_dir():
        raise SpecError("--out", str(path), "it is a folder; name a file")
    if not path.absolute().parent.is_dir():
        raise SpecError("--out", str(path), f"no folder {path.parent}")
    if not os.access(path.absolute().parent, os.W_OK):
        raise SpecError("--out", str(path), f"the folder {path.parent} cannot be written to")


def write_whole(path: Path, document: dict[str, object]) -> None:
    """All of it or nothing."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(_shown(document), encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _shown(document: dict[str, object]) -> str:
    """JSON in which a row of a table is one line."""
    return NUMBERS.sub(lambda found: "[" + " ".join(found[1].split()) + "]", json.dumps(document, indent=1)) + "\n"
