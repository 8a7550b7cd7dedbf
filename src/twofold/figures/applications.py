"""The applications of the lecture's section 5 (DistServe, table 1) and what serves them, as rates that are sustained.

The chapter gives means at most: those of chat in section 2.5, about 1600 tokens of prompt and output together for
summaries, and for code that both are short. The shapes are those chosen for section 2.5, for all rows alike, and a
request is cut to the context of the model, which is 2048 tokens for OPT.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean

import numpy as np

from twofold.figures.budget import OUTPUT, PROMPT
from twofold.plan.goodput import goodput
from twofold.plan.phases import saturating_tokens
from twofold.spec import catalog
from twofold.spec.deployment import Deployment
from twofold.spec.notation import parse_deployment
from twofold.spec.slo import Slo
from twofold.spec.synthetic import Synthetic
from twofold.spec.workload import Workload

REQUESTS = 400
SEEDS = range(10)
POLICIES = ("prefill-first", "mixed", "chunked=512")
SPLITS = tuple(f"{x}P{y}D" for x in (1, 2, 3) for y in (1, 2))


@dataclass(frozen=True)
class Application:
    """Lengths of the requests of an application, and its limits."""

    prompt: str
    output: str
    slo: str

    def workload(self, seed: int, model: str) -> Workload:
        """As many requests as the lecture simulates, Poisson, cut to what ``model`` has been trained for."""
        drawn = Synthetic(rate=1.0, requests=REQUESTS, prompt=self.prompt, output=self.output, seed=seed).workload()
        context = catalog.model(model).max_context
        outputs = np.minimum(drawn.output_tokens, context // 2)
        return replace(drawn, output_tokens=outputs, prompt_tokens=np.minimum(drawn.prompt_tokens, context - outputs))

    @property
    def inputs(self) -> str:
        """What was chosen, for the rows."""
        return f"prompts {self.prompt}, outputs {self.output}, {self.slo}; {DRAWN}"


DRAWN = (
    f"{REQUESTS} Poisson requests cut to the context, room for whole requests reserved; mean of seeds 0 to {SEEDS[-1]}"
)
CHAT = Application(PROMPT, OUTPUT, "ttft<=0.25s, tpot<=0.1s")
CODE = Application("lognormal:171:0.6", "lognormal:98:0.8", "ttft<=0.125s, tpot<=0.2s")
SUMMARIES = Application("lognormal:2000:0.6", "lognormal:90:0.8", "ttft<=15s, tpot<=0.15s")


def colocated(policy: str, model: str, device: str, count: int = 1, tp: int = 1) -> Deployment:
    """``count`` replicas of either phase under ``policy``."""
    return parse_deployment(f"{count}B,tp{tp},{policy},reserve", model=model, device=device, router="least-tokens")


def disaggregated(split: str, model: str, device: str) -> Deployment:
    """``xPyD`` inside one machine; prefill batches prompts up to L_m."""
    spec, machine = catalog.model(model), catalog.device(device)
    x, y = split.removesuffix("D").split("P")
    text = f"{x}P,lm={saturating_tokens(spec, machine)} + {y}D,reserve"
    return parse_deployment(text, model=model, device=device, router="least-tokens", link=machine.intra_link)


def by_draw(
    application: Application, model: str, deployments: Mapping[str, Deployment], slo: Slo
) -> list[dict[str, float]]:
    """The sustained rate of each deployment, requests/s, a mapping a seed; a search begins where the last one ended."""
    found = dict.fromkeys(deployments, 1.0)
    drawn = []
    for seed in SEEDS:
        workload = application.workload(seed, model)
        for name, deployment in deployments.items():
            found[name] = goodput(workload, deployment, slo, guess=found[name] or 1.0).rate
        drawn.append(dict(found))
    return drawn


@cache
def per_device(application: Application, scale: float = 1.0) -> list[dict[str, float]]:
    """For OPT-13B on A100, a mapping a seed: policy or split to requests/s a device, limits times ``scale``."""
    deployments = {policy: colocated(policy, "opt-13b", "A100") for policy in POLICIES}
    deployments |= {split: disaggregated(split, "opt-13b", "A100") for split in SPLITS}
    drawn = by_draw(application, "opt-13b", deployments, Slo.parse(application.slo).scaled(scale))
    return [{name: rate / deployments[name].devices_total for name, rate in found.items()} for found in drawn]


def means(by_seed: list[dict[str, float]]) -> dict[str, float]:
    """The mean of each over the seeds."""
    return {name: fmean(found[name] for found in by_seed) for name in by_seed[0]}


def best_of(by_seed: list[dict[str, float]], names: Iterable[str]) -> str:
    """The one of ``names`` with the highest mean rate."""
    return max(names, key=lambda name: means(by_seed)[name])


def advantages(by_seed: list[dict[str, float]], against: Iterable[str] = POLICIES) -> list[float]:
    """For each seed: the best split over the best of ``against``."""
    policies = tuple(against)
    return [max(found[split] for split in SPLITS) / max(found[policy] for policy in policies) for found in by_seed]
