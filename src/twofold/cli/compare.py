"""``twofold compare``."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twofold.cli import options
from twofold.cli.closed import Concurrency, rate_of
from twofold.cli.comparison import comparison
from twofold.cli.inputs import read_roofline, read_scenario
from twofold.cli.policies import policies_of
from twofold.cli.progress import progress
from twofold.cli.report import workload_line
from twofold.cli.show import print_json
from twofold.errors import SpecError

if TYPE_CHECKING:
    from twofold.spec.scenario import Scenario
    from twofold.spec.workload import Workload

Deploy = Annotated[
    list[str] | None,
    typer.Option("--deploy", metavar="DEPLOYMENT", help="One of the deployments; repeat it for each of them."),
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
) -> None:
    """Run one workload through several deployments and show them in one table."""
    if not deploy:
        raise SpecError("--deploy", None, 'give each deployment, as in --deploy "4B,chunked=512" --deploy 2P2D')
    rate = rate_of(concurrency, source, rate, speedup=speedup, arrivals=arrivals)
    scenarios = [
        read_scenario(
            source,
            settings,
            model=model,
            device=device,
            deployment=text,
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
        for text in deploy
    ]
    with policies_of(policy_file):
        workload, summaries = compared(scenarios, concurrency)
    if json:
        print_json({"deployments": summaries})
    else:
        print(workload_line(workload, concurrency), comparison(summaries), sep="\n\n")


def compared(
    scenarios: Sequence["Scenario"], concurrency: int | None = None
) -> tuple["Workload", list[dict[str, Any]]]:
    """The workload of the first scenario, and the summary of its run through the deployment of each."""
    first = scenarios[0]
    workload, slo, roofline = first.read_workload(), first.read_slo(), read_roofline(first)
    deployments = [scenario.read_deployment() for scenario in scenarios]
    from twofold.cli.reach import Beyond, beyond, warn
    from twofold.simulate.run import simulate

    summaries: list[dict[str, Any]] = []
    left: list[Beyond] = []
    with progress() as report:
        for deployment in deployments:
            result = simulate(workload, deployment, slo, roofline=roofline, concurrency=concurrency, progress=report)
            summaries.append({"deployment": str(deployment), "devices": deployment.devices_total, **result.summary()})
            left += beyond(roofline, result)
    warn(left)
    return workload, summaries
