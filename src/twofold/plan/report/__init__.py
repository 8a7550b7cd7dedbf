"""The report of a plan: one HTML page with its evidence, and the same pictures as files."""

from pathlib import Path
from typing import TYPE_CHECKING

from twofold.errors import SpecError
from twofold.plan.report.drawing import need_pictures

if TYPE_CHECKING:
    from twofold.plan.ranking import Plan
    from twofold.plan.report.evidence import Evidence
    from twofold.simulate.run import Progress


def write_report(
    plan: "Plan",
    path: Path,
    command: str = "",
    progress: "Progress | None" = None,
    evidence: "Evidence | None" = None,
) -> None:
    """Write the evidence for ``plan`` as one HTML file that needs nothing else; ``command`` is what repeats it.

    ``evidence`` is gathered where it is not given. SpecError when the extra ``pictures`` is not installed, and when
    the file cannot be written.
    """
    need_pictures()
    from twofold.plan.report.evidence import gather
    from twofold.plan.report.page import page
    from twofold.plan.report.pictures import pictures_of

    found = evidence or gather(plan, progress)
    html = page(found, pictures_of(found), command)
    try:
        path.write_text(html, encoding="utf-8")
    except OSError as error:
        raise SpecError("report", str(path), f"cannot be written: {error.strerror or error}") from error


def write_pictures(
    plan: "Plan", folder: Path, progress: "Progress | None" = None, evidence: "Evidence | None" = None
) -> list[Path]:
    """Write the pictures of the report as .svg and .png into ``folder``; SpecError as :func:`write_report`."""
    need_pictures()
    from twofold.plan.report.evidence import gather
    from twofold.plan.report.pictures import pictures_of, save

    return save(pictures_of(evidence or gather(plan, progress)).all(), folder)
