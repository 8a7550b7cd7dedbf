"""The flags of ``twofold plan`` alone."""

from pathlib import Path
from typing import Annotated

import typer

from twofold.cli import options

SEARCH = "Search"

Gpus = Annotated[
    str | None,
    typer.Option(
        "--gpus",
        metavar="BUDGET",
        help='Devices to spend, such as 8xH100 or "8xH100 + 16xA100"; kinds alone, as in "H100 + A100", with --within '
        "or a --target-rate.",
    ),
]
Within = Annotated[
    str | None, typer.Option(metavar="AMOUNT", help="What all may cost or draw, such as 150$/h or 40kW.")
]
Aim = Annotated[
    str,
    typer.Option(
        "--objective",
        metavar="WHAT",
        help="goodput, goodput-per-gpu, goodput-per-dollar or goodput-per-watt; or, for a --target-rate, cost, power "
        "or pareto.",
    ),
]
TargetRate = Annotated[
    float | None, typer.Option(metavar="R", help="Requests a second that must be served, for the least.")
]
Requests = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="Replay the first N requests at every rate tried, or make N; 5000 when not given.",
        rich_help_panel=options.WORKLOAD,
    ),
]
Robust = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TRACE",
        help="Choose what loses least on this workload as well; may be repeated.",
        rich_help_panel=options.WORKLOAD,
    ),
]
For = Annotated[
    str | None,
    typer.Option(
        "--for",
        metavar="SYSTEM",
        help="Only what it can run: vllm, sglang, dynamo, llm-d, kubernetes or twofold, as `twofold export` writes it.",
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        "--time",
        metavar="T",
        help="Stop after so long, such as 30s, and say how far from the best.",
        rich_help_panel=SEARCH,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Simulate on N cores; all of them when not given.", rich_help_panel=SEARCH),
]
Ray = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="Simulate on a Ray cluster (extra `ray`), such as auto.", rich_help_panel=SEARCH
    ),
]
Cache = Annotated[
    bool,
    typer.Option(
        "--cache/--no-cache",
        metavar="",
        help="Use what earlier searches have simulated, and keep this.",
        rich_help_panel=SEARCH,
    ),
]
Resamples = Annotated[
    int,
    typer.Option(
        metavar="N", min=0, help="Resamplings behind the 90 % intervals; 0 or 1 for none.", rich_help_panel=SEARCH
    ),
]
Top = Annotated[
    int, typer.Option(metavar="N", min=1, help="Prove and show the N best.", rich_help_panel=options.OUTPUT)
]
Explain = Annotated[
    bool,
    typer.Option(
        "--explain",
        metavar="",
        help="Say what binds the best, and what would change it.",
        rich_help_panel=options.OUTPUT,
    ),
]
Save = Annotated[
    Path | None,
    typer.Option(metavar="FILE.json", help="Write the plan, for `twofold export`.", rich_help_panel=options.OUTPUT),
]
Report = Annotated[
    Path | None,
    typer.Option(metavar="FILE.html", help="Write the evidence as one page.", rich_help_panel=options.OUTPUT),
]
Pictures = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="Write the pictures of the page as .svg and .png.", rich_help_panel=options.OUTPUT
    ),
]
