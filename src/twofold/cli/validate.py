"""``twofold validate``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twofold.cli import options
from twofold.cli.progress import Report as Advance
from twofold.cli.progress import progress
from twofold.cli.show import print_json, table
from twofold.cli.simulate import check_target
from twofold.errors import SpecError

if TYPE_CHECKING:
    from twofold.validate.evidence import MeasuredSet, Report

BESIDE = Path("../shared/data")
WIDEST = 60
NOTHING = 2
"""The exit code where no set could be predicted."""

Only = Annotated[
    str | None,
    typer.Option(metavar="ID", help="One set, such as h200, or all whose id begins so."),
]
Data = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        envvar="TWOFOLD_DATA",
        help="Where the measured sets are; ../shared/data if it is there.",
        file_okay=False,
    ),
]
ReportFile = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="OUT.html|.md",
        help="Write the page: tables and reasons, and pictures in HTML.",
        rich_help_panel=options.OUTPUT,
        dir_okay=False,
    ),
]
Own = Annotated[
    Path | None,
    typer.Option(
        metavar="COST.json",
        help="Serve on this machine under each policy instead, and predict it with this profile: minutes.",
        dir_okay=False,
    ),
]
Model = Annotated[str, typer.Option(metavar="MODEL", help="With --own, the model that is served.")]
Deploy = Annotated[
    list[str] | None,
    typer.Option(metavar="DEPLOYMENT", help="With --own, a policy to serve under; repeatable. Five when not given."),
]


def run(
    only: Only = None,
    data: Data = None,
    own: Own = None,
    model: Model = "smollm2",
    deploy: Deploy = None,
    report: ReportFile = None,
    json: options.Json = False,
) -> None:
    """Predict measured sets and show predicted against measured."""
    check_target("--report", report, (".html", ".md"))
    if own is not None and (only is not None or data is not None):
        raise SpecError("--own", str(own), "accepted: without --only and --data")
    with progress() as advance:
        found = _sets(data, only, advance) if own is None else _own(own, model, deploy, advance)
    if report is not None:
        write_report(found, report)
    if json:
        print_json(found.to_dict())
    elif found.sets:
        print("\n\n".join([*map(shown, found.sets), *skipped(found)]))
    if not found.sets:
        print(*(f"twofold: {line}" for line in skipped(found)), sep="\n", file=sys.stderr)
        raise typer.Exit(NOTHING)


def _sets(data: Path | None, only: str | None, advance: Advance | None) -> "Report":
    from twofold.validate.contents import known_sets, validate

    if data is None and not BESIDE.is_dir():
        given = f"give a folder with {known_sets()}; or --own COST.json, to measure this machine"
        raise SpecError("--data", None, given)
    return validate(data or BESIDE, only, advance)


def _own(cost: Path, model: str, deployments: list[str] | None, advance: Advance | None) -> "Report":
    from twofold.validate.evidence import Report
    from twofold.validate.own_engine import POLICIES, predict_own

    return Report((predict_own(cost, model, deployments or POLICIES, progress=advance),))


def shown(each: "MeasuredSet") -> str:
    """One set as a table under its title."""
    from twofold.validate.words import HEAD, cells, verdict

    rows = [cells(line) for line in each.lines]
    return f"{each.id}: {each.title}; {verdict(each.lines)}\n" + table(HEAD, rows, left=(0, 5, 6), widest=WIDEST)


def skipped(found: "Report") -> list[str]:
    """What was not predicted, and why."""
    return [f"{name}: skipped, {reason}" for name, reason in found.skipped.items()]


def write_report(found: "Report", path: Path) -> None:
    """Write the page in the form that the ending of ``path`` names."""
    from twofold.validate.html import html
    from twofold.validate.markdown import markdown

    text = html(found) if path.suffix == ".html" else markdown(found)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SpecError("--report", str(path), f"cannot be written: {error.strerror or error}") from None
