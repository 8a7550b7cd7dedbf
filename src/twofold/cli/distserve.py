"""``twofold distserve``."""

from typing import TYPE_CHECKING, Annotated

import typer

from twofold.cli import options
from twofold.cli.inputs import read_roofline, read_scenario
from twofold.cli.progress import progress
from twofold.cli.show import number, percent, print_json, table
from twofold.errors import SpecError

if TYPE_CHECKING:
    from twofold.plan.placement import Instance, Placement

HEAD = ("instance", "devices", "goodput, req/s", "per device", "attainment", "limited by", "prefill batch")
LISTED = 8

Algorithm = Annotated[
    int,
    typer.Option(
        metavar="1|2",
        min=1,
        max=2,
        help="1: a fast network between machines; 2: a slow one, KV stays inside a machine.",
    ),
]
Nodes = Annotated[int, typer.Option(metavar="N", min=1, help="Machines that one instance may span.")]
TargetRate = Annotated[
    float | None, typer.Option(metavar="R", help="Requests a second to replicate for; the workload's own otherwise.")
]
Top = Annotated[int, typer.Option(metavar="N", min=1, help="Show the N best of each.", rich_help_panel=options.OUTPUT)]


def run(
    source: options.Source = None,
    model: options.Model = None,
    device: options.Device = None,
    slo: options.Slo = None,
    algorithm: Algorithm = 1,
    nodes: Nodes = 1,
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
    top: Top = LISTED,
) -> None:
    """Place prefill and decode instances as DistServe does: each phase by itself, then whole replicas of either."""
    drawn = {"prompt": prompt, "output": output, "arrivals": arrivals, "seed": seed}
    timed = {"rate": rate, "speedup": speedup, "requests": requests}
    scenario = read_scenario(source, settings, model=model, device=device, slo=slo, cost=cost, **timed, **drawn)
    limits = scenario.read_slo()
    for flag, value in (("--model", scenario.model), ("--device", scenario.device), ("--slo", limits)):
        if value is None:
            raise SpecError(flag, None, "distserve needs it")
    scenario.load_catalog()
    from twofold.plan.distserve import algorithm_1, algorithm_2
    from twofold.spec import catalog

    place = algorithm_1 if algorithm == 1 else algorithm_2
    with progress():
        found = place(
            scenario.read_workload(),
            catalog.model(scenario.model or ""),
            catalog.device(scenario.device or ""),
            limits or "",
            target_rate,
            nodes=nodes,
            roofline=read_roofline(scenario),
        )
    print_json(found.to_dict()) if json else print(placement_report(found, top))


def placement_report(found: "Placement", top: int) -> str:
    """What was enumerated for each phase, and the whole replicas for the rate."""
    parts = [table(HEAD, [instance_row(each) for each in instances[:top]]) for instances in found.tables]
    counts = found.counts()
    chosen = (
        f"For {number(found.rate)} req/s: {found.deployment()}, {found.devices()} devices"
        f" ({' + '.join(f'{count} x {each.devices}' for count, each in zip(counts, found.best, strict=True))})"
    )
    return "\n\n".join([*parts, chosen])


def instance_row(instance: "Instance") -> list[str]:
    """One enumerated instance."""
    row = instance.row()
    batch = row["prefill_batch_tokens"]
    return [
        " + ".join(row["instance"]),
        str(row["devices"]),
        number(row["goodput_req_s"]),
        number(row["goodput_per_device_req_s"]),
        percent(row["attainment"]),
        row["limit"],
        "" if batch is None else f"{batch:,}",
    ]
