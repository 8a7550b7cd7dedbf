"""The machine's own engine: served under each policy, and predicted by the simulator with a profile of this machine.

The server is a real one, loaded over HTTP as any client would; what HTTP takes is in its TTFT and not in the
simulator's.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from twofold.clients.bench import Bench
from twofold.clients.local import served
from twofold.clients.measured import Measured
from twofold.cost.profile_file import read_specs
from twofold.cost.tables import read_costs
from twofold.simulate.result import Result
from twofold.simulate.run import simulate
from twofold.spec.deployment import Deployment
from twofold.spec.notation import parse_groups
from twofold.spec.synthetic import Synthetic
from twofold.spec.workload import Workload
from twofold.validate.evidence import Line, MeasuredSet, cloud, compared

POLICIES = ("1B,prefill-first", "1B,mixed", "1B,chunked=128", "1B,chunked=512", "1B,multiplexed")
GOAL = 0.10
FIGURES = (("ttft_s", "TTFT"), ("tbt_s", "TBT"))
STATISTICS = ("mean", "p50", "p99")
WARM_UP = Synthetic(rate=2.0, requests=4, prompt="fixed:48", output="fixed:8").workload()
MEMORY = "2GB"
RULE = (
    "one server for each policy, open-loop Poisson load over HTTP; the same requests simulated with the profile and "
    "nothing fitted to the served runs"
)
Progress = Callable[[int, int, str], None]


class Load(NamedTuple):
    """What is put on the server: Poisson arrivals at ``rate`` requests/s, and lengths as distributions."""

    rate: float = 0.8
    requests: int = 80
    prompt: str = "lognormal:160:0.6"
    output: str = "lognormal:32:0.5"
    seed: int = 7

    def workload(self) -> Workload:
        """The requests; the same for the same fields."""
        return Synthetic(
            rate=self.rate, requests=self.requests, prompt=self.prompt, output=self.output, seed=self.seed
        ).workload()


def predict_own(
    cost: Path,
    model: str,
    deployments: Sequence[str] = POLICIES,
    load: Load | None = None,
    progress: Progress | None = None,
) -> MeasuredSet:
    """Serve ``model`` under each deployment with the profile ``cost`` of this machine, and predict what was measured.

    Raises SpecError for what cannot be read, served or simulated.
    """
    load = load or Load()
    requests, lines, clouds = load.workload(), list[Line](), []
    for count, text in enumerate(deployments):
        if progress is not None:
            progress(count, len(deployments), f"serving under {text}")
        predicted, measured = _predicted(cost, text, requests), _measured(cost, model, text, requests)
        lines += compared_lines(text, predicted.summary(), measured.summary())
        clouds.append(cloud(f"TTFT, {text}", "s", predicted.ttft_s, measured.ttft_s, text))
    title = (
        f"{model} on this machine, {load.requests} requests at {load.rate:g} req/s, "
        f"prompt {load.prompt}, output {load.output}"
    )
    return MeasuredSet("own", title, RULE, tuple(lines), tuple(clouds))


def compared_lines(policy: str, predicted: dict[str, Any], measured: dict[str, Any]) -> list[Line]:
    """Mean, P50 and P99 of TTFT and of TBT under one policy."""
    return [
        compared(f"{policy}: {name} {which}", predicted[field][which], measured[field][which], "s", GOAL)
        for field, name in FIGURES
        for which in STATISTICS
    ]


def _predicted(cost: Path, text: str, requests: Workload) -> Result:
    specs = read_specs(cost)
    groups = tuple(group.replaced(device=specs.device) for group in parse_groups(text))
    return simulate(requests, Deployment(model=specs.model, groups=groups), roofline=read_costs(cost))


def _measured(cost: Path, model: str, text: str, requests: Workload) -> Measured:
    flags = ("--deploy", text, "--cost", str(cost.absolute()), "--memory", MEMORY)
    with served(model, flags) as url, Bench(url) as bench:
        bench.load(WARM_UP)
        return bench.load(requests)
