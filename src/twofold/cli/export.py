"""``twofold export``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twofold.cli import options
from twofold.errors import SpecError

if TYPE_CHECKING:
    from twofold.plan.export.base import Exported

EXECUTABLE = 0o755
PlanFile = Annotated[Path, typer.Argument(metavar="PLAN.json", help="A plan that `twofold plan --save` has written.")]
To = Annotated[
    str,
    typer.Option("--to", metavar="TARGET", help="vllm, sglang, dynamo, llm-d, kubernetes or twofold."),
]
Rank = Annotated[int, typer.Option(metavar="N", help="Export the plan of this rank; 1 is the best.")]
ModelPath = Annotated[
    str | None,
    typer.Option(metavar="ID|PATH", help="Where the weights are, if not at the hub id of the catalog."),
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Write the files there, not to the screen.", rich_help_panel=options.OUTPUT),
]
Force = Annotated[
    bool,
    typer.Option("--force", metavar="", help="Overwrite files that exist.", rich_help_panel=options.OUTPUT),
]


def run(
    plan: PlanFile,
    to: To,
    rank: Rank = 1,
    model_path: ModelPath = None,
    out: Out = None,
    force: Force = False,
) -> None:
    """Write what starts a planned deployment on the system that you run."""
    from twofold.plan.document import read_plan
    from twofold.plan.export.targets import export

    exported = export(read_plan(plan, rank), to, model_path)
    print(shown(exported) if out is None else written(exported, out, force))


def shown(exported: "Exported") -> str:
    """The one file, or all of them below a comment with their name."""
    if len(exported.files) == 1:
        return exported.files[0].text.rstrip("\n")
    return "\n".join(f"# ======== {file.name} ========\n{file.text}" for file in exported.files).rstrip("\n")


def written(exported: "Exported", folder: Path, force: bool) -> str:
    """Write the files into ``folder``, scripts executable; the lines that say so and how to start.

    SpecError, before anything is written, where a file exists and ``force`` is not given.
    """
    paths = [folder / file.name for file in exported.files]
    for path in paths:
        if path.exists() and not force:
            raise SpecError("--out", str(path), "it exists already; --force overwrites it")
    folder.mkdir(parents=True, exist_ok=True)
    for path, file in zip(paths, exported.files, strict=True):
        path.write_text(file.text, encoding="utf-8")
        if path.suffix == ".sh":
            path.chmod(EXECUTABLE)
    return "\n".join([*(f"wrote {path}" for path in paths), *(f"start: {step}" for step in exported.start)])
