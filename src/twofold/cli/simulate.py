"""``twofold simulate``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twofold.cli import options
from twofold.cli.closed import Concurrency, rate_of
from twofold.cli.inputs import read_roofline, read_scenario
from twofold.cli.policies import policies_of
from twofold.cli.progress import progress
from twofold.cli.report import run_report
from twofold.cli.show import print_json
from twofold.errors import SpecError

if TYPE_CHECKING:
    from twofold.simulate.result import Result
    from twofold.spec.scenario import Scenario

Deploy = Annotated[
    str | None,
    typer.Option(
        "--deploy",
        metavar="DEPLOYMENT",
        help='How replicas share the devices, such as "4B,chunked=512" or 3P2D.',
    ),
]
PerRequest = Annotated[
    Path | None,
    typer.Option(
        metavar="OUT.csv|.parquet",
        help="Write one row a request.",
        rich_help_panel=options.OUTPUT,
        dir_okay=False,
    ),
]
Timeline = Annotated[
    Path | None,
    typer.Option(
        metavar="OUT.json",
        help="Write lanes, steps, stalls and transfers for ui.perfetto.dev.",
        rich_help_panel=options.OUTPUT,
        dir_okay=False,
    ),
]


def run(
    source: options.Source = None,
    model: options.Model = None,
    device: options.Device = None,
    deploy: Deploy = None,
    slo: options.Slo = None,
    rate: options.Rate = None,
    speedup: options.Speedup = None,
    concurrency: Concurrency = None,
    requests: options.Requests = None,
    prompt: options.Prompt = None,
    output: options.Output = None,
    arrivals: options.Arrivals = None,
    seed: options.Seed = None,
    link: options.Link = None,
    link_per: options.LinkPer = None,
    fabric: options.Fabric = None,
    router: options.Router = None,
    transfer: options.Transfer = None,
    layerwise: options.Layerwise = None,
    policy_file: options.PolicyFile = None,
    cost: options.Cost = None,
    settings: options.Set = None,
    json: options.Json = False,
    per_request: PerRequest = None,
    timeline: Timeline = None,
) -> None:
    """Run a workload through a deployment and report latencies, attainment and cost."""
    rate = rate_of(concurrency, source, rate, speedup=speedup, arrivals=arrivals)
    scenario = read_scenario(
        source,
        settings,
        model=model,
        device=device,
        deployment=deploy,
        slo=slo,
        rate=rate,
        speedup=speedup,
        requests=requests,
        prompt=prompt,
        output=output,
        arrivals=arrivals,
        seed=seed,
        link=link,
        link_per=link_per,
        fabric=fabric,
        router=router,
        transfer=transfer,
        layerwise=layerwise,
        cost=cost,
    )
    with policies_of(policy_file):
        result = simulated(scenario, per_request, timeline, concurrency)
    if json:
        print_json(result.summary())
    else:
        print(run_report(result))


def simulated(
    scenario: "Scenario", per_request: Path | None, timeline: Path | None, concurrency: int | None = None
) -> "Result":
    """Simulate one scenario and write the files asked for."""
    check_target("--per-request", per_request, (".csv", ".parquet"))
    check_target("--timeline", timeline, (".json",))
    workload, deployment, slo = scenario.read_workload(), scenario.read_deployment(), scenario.read_slo()
    roofline = read_roofline(scenario)
    from twofold.cli.reach import beyond, warn
    from twofold.simulate.run import simulate

    with progress() as report:
        result = simulate(
            workload,
            deployment,
            slo,
            roofline=roofline,
            timeline=timeline is not None,
            concurrency=concurrency,
            progress=report,
        )
    warn(beyond(roofline, result))
    if per_request is not None:
        result.write_requests(per_request)
    if timeline is not None:
        result.write_timeline(timeline)
    return result


def check_target(flag: str, path: Path | None, endings: tuple[str, ...]) -> None:
    """Refuse, before any work is done, an output file of an unknown ending or in a folder that is missing."""
    if path is None:
        return
    if path.suffix not in endings:
        raise SpecError(flag, str(path), f"its name ends in {' or '.join(endings)}")
    if not path.parent.is_dir():
        raise SpecError(flag, str(path), "its folder must exist")
