"""``twofold compare``."""

from typing import Annotated, Any

import typer

from twofold.cli import options
from twofold.cli.comparison import comparison
from twofold.cli.inputs import read_scenario
from twofold.cli.progress import progress
from twofold.cli.report import workload_line
from twofold.cli.show import print_json
from twofold.errors import SpecError

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
    requests: options.Requests = None,
    prompt: options.Prompt = None,
    output: options.Output = None,
    arrivals: options.Arrivals = None,
    seed: options.Seed = None,
    link: options.Link = None,
    router: options.Router = None,
    transfer: options.Transfer = None,
    layerwise: options.Layerwise = None,
    settings: options.Set = None,
    json: options.Json = False,
) -> None:
    """Run one workload through several deployments and show them in one table."""
    if not deploy:
        raise SpecError("--deploy", "", 'give each deployment, as in --deploy "4B,chunked=512" --deploy 2P2D')
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
            router=router,
            transfer=transfer,
            layerwise=layerwise,
        )
        for text in deploy
    ]
    workload, slo_read = scenarios[0].read_workload(), scenarios[0].read_slo()
    deployments = [scenario.read_deployment() for scenario in scenarios]
    from twofold.simulate.run import simulate

    summaries: list[dict[str, Any]] = []
    with progress() as report:
        for deployment in deployments:
            result = simulate(workload, deployment, slo=slo_read, seed=scenarios[0].seed or 0, progress=report)
            summaries.append({"deployment": str(deployment), "devices": deployment.devices_total, **result.summary()})
    if json:
        print_json({"deployments": summaries})
    else:
        print(workload_line(workload), comparison(summaries), sep="\n\n")
