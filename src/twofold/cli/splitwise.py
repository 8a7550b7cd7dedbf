"""``twofold splitwise``."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, cast

import typer

from twofold.cli import options
from twofold.cli.inputs import read_roofline, read_scenario
from twofold.cli.progress import progress
from twofold.cli.report import workload_line
from twofold.cli.show import number, print_json, table
from twofold.errors import SpecError

HEAD = ("design", "prompt machines", "token machines", "req/s", "$/h", "kW", "limited by")

Aim = Annotated[
    str,
    typer.Option(
        "--objective", metavar="WHAT", help="throughput, within an amount; or cost or power, for a --target-rate."
    ),
]
Within = Annotated[
    str | None, typer.Option(metavar="AMOUNT", help="What all machines may cost or draw, such as 1500$/h or 440kW.")
]
TargetRate = Annotated[float | None, typer.Option(metavar="R", help="Requests a second that must be served.")]


def run(
    source: options.Source = None,
    model: options.Model = None,
    objective: Aim = "throughput",
    within: Within = None,
    target_rate: TargetRate = None,
    rate: options.Rate = None,
    speedup: options.Speedup = None,
    requests: options.Requests = None,
    prompt: options.Prompt = None,
    output: options.Output = None,
    arrivals: options.Arrivals = None,
    seed: options.Seed = None,
    cost: options.Cost = None,
    settings: options.Set = None,
    json: options.Json = False,
) -> None:
    """Find how many prompt and token machines each of Splitwise's designs takes, and what each of them serves."""
    drawn = {"prompt": prompt, "output": output, "arrivals": arrivals, "seed": seed}
    timed = {"rate": rate, "speedup": speedup, "requests": requests}
    scenario = read_scenario(source, settings, model=model, cost=cost, **timed, **drawn)
    if scenario.model is None:
        raise SpecError("--model", None, "name a model of `twofold models`, or a config.json")
    scenario.load_catalog()
    from twofold.plan.resources import read_amount
    from twofold.plan.splitwise import provision, table_rows
    from twofold.spec import catalog

    usd, watts = (None, None) if within is None else read_amount(within, "--within")
    workload = scenario.read_workload()
    with progress() as shown:
        found = provision(
            workload,
            catalog.model(scenario.model),
            cast("Literal['throughput', 'cost', 'power']", objective),
            watts=watts,
            usd_per_hour=usd,
            rate=target_rate,
            roofline=read_roofline(scenario),
            progress=shown,
        )
    rows = table_rows(found)
    print_json({"objective": objective, "designs": rows}) if json else print(
        workload_line(workload), designs(rows), sep="\n\n"
    )


def designs(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line a design, best first."""
    lines = [
        (
            row["design"],
            str(row["prompt_machines"]),
            str(row["token_machines"]),
            number(row["rate_req_s"]),
            number(row["usd_per_hour"]),
            number(row["watts"] / 1e3),
            row["limit"],
        )
        for row in rows
    ]
    return table(HEAD, lines, left=(0, 6))
