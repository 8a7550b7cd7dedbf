"""``twofold budget``."""

from typing import Annotated

import typer

from twofold.cli import options
from twofold.cli.inputs import read_roofline, read_scenario
from twofold.cli.show import print_json
from twofold.errors import SpecError

TensorParallel = Annotated[int, typer.Option("--tp", metavar="N", min=1, help="Tensor-parallel devices a replica.")]
Stages = Annotated[int, typer.Option("--pp", metavar="N", min=1, help="Pipeline stages a replica.")]
Tbt = Annotated[
    str | None, typer.Option(metavar="T", help="Largest budget for this limit on P99 TBT alone, such as 50ms.")
]


def run(
    source: options.Source = None,
    model: options.Model = None,
    device: options.Device = None,
    tp: TensorParallel = 1,
    pp: Stages = 1,
    tbt: Tbt = None,
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
    """Choose the token budget of a chunked replica for the load that comes to it, as Sarathi-Serve does."""
    drawn = {"prompt": prompt, "output": output, "arrivals": arrivals, "seed": seed}
    timed = {"rate": rate, "speedup": speedup, "requests": requests}
    scenario = read_scenario(source, settings, model=model, device=device, cost=cost, **timed, **drawn)
    for flag, value in (("--model", scenario.model), ("--device", scenario.device)):
        if value is None:
            raise SpecError(flag, None, "name one of the catalog")
    scenario.load_catalog()
    workload, roofline = scenario.read_workload(), read_roofline(scenario)
    from twofold.cli.explanation import budget_choice, budget_table
    from twofold.plan.budget import budget_study, largest_budget
    from twofold.spec import catalog
    from twofold.spec.quantity import parse_duration

    replica = (workload, catalog.model(scenario.model or ""), catalog.device(scenario.device or ""))
    if tbt is not None:
        choice = largest_budget(*replica, parse_duration(tbt, "--tbt"), tp=tp, pp=pp, roofline=roofline)
        print_json(choice.to_dict()) if json else print(budget_choice(choice))
        return
    study = budget_study(*replica, tp=tp, pp=pp, roofline=roofline)
    print_json(study.to_dict()) if json else print(budget_table(study))
