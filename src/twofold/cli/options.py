"""The flags that several verbs share, each defined once."""

from pathlib import Path
from typing import Annotated

import typer

WORKLOAD, DEPLOYMENT, OUTPUT = "Workload", "Deployment", "Output"

Source = Annotated[
    str | None,
    typer.Argument(
        metavar="TRACE|SCENARIO.yaml",
        help="A trace file, `sample` for the one that ships with Twofold, or a scenario file; "
        "leave it out to make requests from --rate, --requests, --prompt and --output.",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|CONFIG",
        help="A model of `twofold models`, or a Hugging Face config.json or its folder.",
    ),
]
Device = Annotated[str | None, typer.Option(metavar="NAME", help="A device of `twofold devices`.")]
Slo = Annotated[
    str | None,
    typer.Option(metavar="LIMITS", help='Limits to meet, such as "ttft<=0.5s, tpot<=20ms @90%".'),
]

Rate = Annotated[
    str | None,
    typer.Option(metavar="R", help="Requests a second; a trace is stretched to it.", rich_help_panel=WORKLOAD),
]
Speedup = Annotated[
    str | None,
    typer.Option(metavar="X", help="Play the trace X times as fast.", rich_help_panel=WORKLOAD),
]
Requests = Annotated[
    str | None,
    typer.Option(metavar="N", help="Use the first N requests, or make N.", rich_help_panel=WORKLOAD),
]
Prompt = Annotated[
    str | None,
    typer.Option(
        metavar="LENGTHS",
        help="Prompt tokens of made requests, such as fixed:512 or lognormal:755:0.6.",
        rich_help_panel=WORKLOAD,
    ),
]
Output = Annotated[
    str | None,
    typer.Option(metavar="LENGTHS", help="Output tokens of made requests, written likewise.", rich_help_panel=WORKLOAD),
]
Arrivals = Annotated[
    str | None,
    typer.Option(
        metavar="PROCESS",
        help="How made requests arrive: poisson, gamma:CV, constant, piecewise:..., onoff:...",
        rich_help_panel=WORKLOAD,
    ),
]
Seed = Annotated[str | None, typer.Option(metavar="N", help="Seed of all that is random.", rich_help_panel=WORKLOAD)]

Link = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="A link of `twofold links` that KV crosses.", rich_help_panel=DEPLOYMENT),
]
LinkPer = Annotated[
    str | None,
    typer.Option(
        metavar="device|replica",
        help="Whether each device has such a link, or each replica.",
        rich_help_panel=DEPLOYMENT,
    ),
]
Fabric = Annotated[
    str | None,
    typer.Option(
        metavar="BANDWIDTH", help="A trunk that all transfers share, such as 400Gb/s.", rich_help_panel=DEPLOYMENT
    ),
]
Router = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="round-robin, random, least-requests, least-tokens, power-of-two or kv-aware.",
        rich_help_panel=DEPLOYMENT,
    ),
]
Transfer = Annotated[
    str | None,
    typer.Option(
        metavar="pull|push",
        help="Whether decode replicas fetch KV when they have room, or are sent it.",
        rich_help_panel=DEPLOYMENT,
    ),
]
Layerwise = Annotated[
    bool | None,
    typer.Option(
        "--layerwise/--serial",
        metavar="",
        help="Send KV layer by layer during prefill, or after it.",
        rich_help_panel=DEPLOYMENT,
        show_default=False,
    ),
]
Cost = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Step times from this file or folder of measurements or coefficients, or silicon:ENGINE, instead of the "
        "roofline.",
        rich_help_panel=DEPLOYMENT,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="A.B=C",
        help="Set any field of the scenario, such as cost.flop_efficiency=0.6; may be repeated.",
        rich_help_panel=DEPLOYMENT,
    ),
]

PolicyFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.py",
        help="Register the policies of this file, for policy=NAME in a deployment.",
        rich_help_panel=DEPLOYMENT,
    ),
]

Json = Annotated[
    bool, typer.Option("--json", metavar="", help="Print one JSON object, times in seconds.", rich_help_panel=OUTPUT)
]
Name = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="Show all that is known of this one, with its source.")
]
