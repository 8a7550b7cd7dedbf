"""``twofold plan``."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twofold.cli import options
from twofold.cli.inputs import read_roofline, read_scenario
from twofold.cli.progress import progress
from twofold.cli.report import workload_line
from twofold.cli.show import bar, number, percent, print_json, table
from twofold.errors import SpecError

if TYPE_CHECKING:
    from twofold.plan.search import Plan
    from twofold.spec.scenario import Scenario

HEAD = ("rank", "deployment", "goodput, req/s", "per device", "attainment", "limited by", "")
LISTED = 20
SEARCHED = ("deployment", "device", "link", "router", "transfer", "layerwise")

Gpus = Annotated[
    str | None,
    typer.Option("--gpus", metavar="BUDGET", help='Devices to spend, such as 8xH100 or "8xH100 + 16xA100".'),
]
Requests = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="Replay the first N requests at every rate tried, or make N; 2000 when not given.",
        rich_help_panel=options.WORKLOAD,
    ),
]
Top = Annotated[int, typer.Option(metavar="N", min=1, help="Show the N best.", rich_help_panel=options.OUTPUT)]


def run(
    source: options.Source = None,
    model: options.Model = None,
    gpus: Gpus = None,
    slo: options.Slo = None,
    rate: options.Rate = None,
    speedup: options.Speedup = None,
    requests: Requests = None,
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
    found = planned(scenario, gpus)
    if json:
        print_json(found.to_dict())
    else:
        print(headline(found), ranking(found.rows, top), sep="\n\n")


def planned(scenario: "Scenario", gpus: str | None) -> "Plan":
    """The plan for the workload, model and limits of a scenario; SpecError for a field that it would not heed."""
    for field in SEARCHED:
        if (value := getattr(scenario, field)) is not None:
            raise SpecError(field, value, "plan chooses it; leave it out")
    if gpus is None:
        raise SpecError("--gpus", "", "say which devices there are, such as 8xH100")
    if scenario.model is None:
        raise SpecError("--model", "", "name a model of `twofold models`, or a config.json")
    slo = scenario.read_slo()
    if slo is None:
        raise SpecError("--slo", "", 'give the limits to meet, such as "ttft<=0.5s, tpot<=20ms @90%"')
    scenario.load_catalog()
    workload, roofline = scenario.read_workload(), read_roofline(scenario)
    from twofold.plan.search import REQUESTS, plan

    with progress() as report:
        return plan(
            workload,
            model=scenario.model,
            budget=gpus,
            slo=slo,
            requests=len(workload) if counted(scenario) else REQUESTS,
            roofline=roofline,
            progress=report,
        )


def counted(scenario: "Scenario") -> bool:
    """Whether the number of requests has been given."""
    written = scenario.workload
    return scenario.requests is not None or (isinstance(written, dict) and "requests" in written)


def headline(found: "Plan") -> str:
    """What was planned for: the requests of a probe, the model, the devices and the limits."""
    devices = " + ".join(f"{count} {device}" for device, count in found.budget.items())
    return f"{workload_line(found.workload)}\n{found.model.name} on {devices}: {found.slo}"


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
    return table(HEAD, lines, left=(1, 5)) + (f"\n\n{left_out} more with less goodput; see --top" if left_out else "")
