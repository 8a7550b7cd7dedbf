"""When no deployment meets an SLO: what the nearest one gives a request that it has to itself."""

import numpy as np

from twofold.plan.examine import Question
from twofold.plan.probe import SUSTAINABLE_TTFT_S
from twofold.plan.space import Space
from twofold.simulate.run import simulate
from twofold.spec.deployment import Deployment
from twofold.spec.quantity import format_duration

SAMPLE = 200
APART_S = 3600.0
DIGITS = 3


def nearest_possible(question: Question, space: Space, target: float | None) -> str:
    """One line: that nothing keeps the SLO, and what the deployment nearest to it reaches, one request at a time."""
    slo, model = question.slo, space.model.name
    tried = _fastest(space)
    if not tried:
        return f"{space.system} can run no deployment of {model} on {space.resources} that is tried"
    rate = "any rate" if target is None else f"{target:g} req/s"
    deployment, reached = min(
        ((each, _alone(question, each)) for each in tried),
        key=lambda pair: max(pair[1][metric] / limit for metric, limit in _limits(question).items()),
    )
    if all(reached[metric] <= limit for metric, limit in _limits(question).items()):
        return (
            f"no deployment of {model} on {space.resources} is sustainable at {rate}: half of the first tokens take "
            f"more than {SUSTAINABLE_TTFT_S:g} s (Sarathi-Serve's condition), however loose the limits"
        )
    kept = ", ".join(f"{metric}<={format_duration(_rounded_up(value))}" for metric, value in reached.items())
    return (
        f"no deployment of {model} on {space.resources} keeps it at {rate}; "
        f"nearest possible: {kept} @{slo.attainment:.0%}, one request at a time on {deployment}"
    )


def _limits(question: Question) -> dict[str, float]:
    slo = question.slo
    return slo.limits or {limit.metric: limit.limit_s for limit in slo.percentiles}


def _fastest(space: Space) -> list[Deployment]:
    """A few candidates with the most devices a replica: alone, they are the fastest."""
    ordered = sorted(space, key=lambda each: -max(group.tp * group.pp for group in each.groups))
    shapes: dict[tuple[int, int, str], Deployment] = {}
    for each in ordered:
        group = each.groups[0]
        shapes.setdefault((group.tp, group.pp, str(each.by_device())), each)
    return list(shapes.values())


def _alone(question: Question, deployment: Deployment) -> dict[str, float]:
    """For each metric that is limited: what the demanded share of requests reaches, in seconds."""
    workload = question.workload.head(SAMPLE)
    apart = workload.with_arrivals(APART_S * np.arange(len(workload), dtype=np.float64))
    result = simulate(apart, deployment, question.slo, roofline=question.roofline)
    values = {"ttft": result.ttft_s, "tpot": result.tpot_s, "tbt": result.max_tbt_s, "e2e": result.e2e_s}
    reached = {}
    for metric in _limits(question):
        known = np.where(np.isnan(values[metric]), np.inf, values[metric])
        reached[metric] = float(np.quantile(known, question.slo.attainment, method="inverted_cdf"))
    return reached


def _rounded_up(seconds: float) -> float:
    if not 0 < seconds < np.inf:
        return seconds
    unit = 10.0 ** (np.floor(np.log10(seconds)) - DIGITS + 1)
    return float(f"{np.ceil(seconds / unit) * unit:.{DIGITS}g}")
