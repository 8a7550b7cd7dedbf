"""``twofold plan``."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from twofold.cli import options
from twofold.cli.inputs import read_scenario
from twofold.cli.progress import progress
from twofold.cli.report import workload_line
from twofold.cli.show import bar, number, percent, print_json, table
from twofold.errors import SpecError

HEAD = ("rank", "deployment", "goodput, req/s", "per device", "attainment", "limited by", "")
LISTED = 20

Gpus = Annotated[
    str | None,
    typer.Option("--gpus", metavar="BUDGET", help='Devices to spend, such as 8xH100 or "8xH100 + 16xA100".'),
]
Top = Annotated[int, typer.Option(metavar="N", min=1, help="Show the N best.", rich_help_panel=options.OUTPUT)]


def run(
    source: options.Source = None,
    model: options.Model = None,
    gpus: Gpus = None,
    slo: options.Slo = None,
    rate: options.Rate = None,
    speedup: options.Speedup = None,
    requests: options.Requests = None,
    prompt: options.Prompt = None,
    output: options.Output = None,
    arrivals: options.Arrivals = None,
    seed: options.Seed = None,
    settings: options.Set = None,
    json: options.Json = False,
    top: Top = LISTED,
) -> None:
    """Search the deployments that fit the devices for the highest rate that still meets the limits."""
    scenario = read_scenario(
        source,
        settings,
        model=model,
        slo=slo,
        rate=rate,
        speedup=speedup,
        requests=requests,
        prompt=prompt,
        output=output,
        arrivals=arrivals,
        seed=seed,
    )
    if gpus is None:
        raise SpecError("--gpus", "", "say which devices there are, such as 8xH100")
    if scenario.model is None:
        raise SpecError("--model", "", "name a model of `twofold models`, or a config.json")
    limits = scenario.read_slo()
    if limits is None:
        raise SpecError("--slo", "", 'give the limits to meet, such as "ttft<=0.5s, tpot<=20ms @90%"')
    workload = scenario.read_workload()
    from twofold.plan.search import plan

    with progress() as report:
        found = plan(workload, model=scenario.model, budget=gpus, slo=limits, progress=report)
    if json:
        print_json(found.to_dict())
    else:
        print(workload_line(workload), ranking(found.rows, top), sep="\n\n")


def ranking(rows: Sequence[Mapping[str, Any]], top: int) -> str:
    """The ``top`` best plans, one a line, with a bar for the goodput; the best is first."""
    best = rows[0]["goodput_req_s"] or 1.0
    lines = [
        (
            str(rank),
            row["deployment"],
            number(row["goodput_req_s"]),
            number(row["goodput_per_device_req_s"]),
            percent(row["attainment"]),
            row["limit"],
            bar(row["goodput_req_s"] / best, 20),
        )
        for rank, row in enumerate(rows[:top], 1)
    ]
    left_out = len(rows) - len(lines)
    return table(HEAD, lines) + (f"\n\n{left_out} more with less goodput; see --top" if left_out else "")
