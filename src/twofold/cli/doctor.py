"""``twofold doctor``."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from twofold.cli import options
from twofold.cli.progress import progress
from twofold.cli.show import print_json, table
from twofold.errors import SpecError

if TYPE_CHECKING:
    from twofold.doctor.finding import Finding

Timeout = Annotated[str, typer.Option(metavar="TIME", help="How long each check that may hang is waited for.")]
BROKEN = 1
WIDEST = 60


def run(timeout: Timeout = "60s", json: options.Json = False) -> None:
    """Say what this machine can do, what limits it, and what to do about it."""
    from twofold.doctor.checks import findings
    from twofold.spec.quantity import parse_duration

    deadline = parse_duration(timeout, "--timeout")
    if not 0 < deadline < float("inf"):
        raise SpecError("--timeout", timeout, "a time above 0, such as 60s")
    found = []
    with progress() as report:
        for finding in findings(deadline):
            found.append(finding)
            if report is not None:
                report(len(found), 0, f"{finding.subject}: {finding.state}")
    broken = any(finding.state == "broken" for finding in found)
    print_json({"ok": not broken, "findings": [each.to_dict() for each in found]}) if json else print(screen(found))
    if broken:
        raise typer.Exit(BROKEN)


def screen(found: "Sequence[Finding]") -> str:
    """A line a finding, and below it what to do."""
    rows = []
    for finding in found:
        rows.append([finding.state, finding.subject, finding.found])
        if finding.advice:
            rows.append(["", "", f"-> {finding.advice}"])
    return table(["", "what", "found"], rows, left=(0, 1, 2), widest=WIDEST)
