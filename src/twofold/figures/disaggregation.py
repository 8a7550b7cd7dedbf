"""Lecture 7, section 5: colocated or disaggregated, on OPT-13B and A100, under the SLOs of DistServe's table 1."""

from collections.abc import Iterator
from statistics import fmean

import numpy as np

from twofold.figures.applications import (
    CHAT,
    CODE,
    POLICIES,
    SEEDS,
    SPLITS,
    SUMMARIES,
    advantages,
    best_of,
    disaggregated,
    per_device,
)
from twofold.figures.row import Comparison, sampled, text, within
from twofold.simulate.attainment import attainment_of
from twofold.simulate.run import simulate
from twofold.spec.deployment import Deployment
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload

RELAXED = (1.0, 2.0)
PER_GPU = "req/s a GPU"


def attained_rate(workload: Workload, deployment: Deployment, slo: Slo, precision: float = 0.02) -> float:
    """The highest rate at which these very requests keep ``slo``, whether or not it could last; by bisection."""
    low, high, rate = 0.0, 0.0, 10.0
    while not (low and high and high / low <= 1.0 + precision):
        result = simulate(workload.at_rate(rate), deployment, slo)
        if attainment_of(result, slo) >= slo.attainment:
            low = rate
        else:
            high = rate
        rate = float(np.sqrt(low * high)) if low and high else 2.0 * low or high / 2.0
    return low


def trap() -> Iterator[Comparison]:
    """Summarisation on 3P2D when nothing asks whether the rate could last."""
    slo, deployment = Slo.parse(SUMMARIES.slo), disaggregated("3P2D", "opt-13b", "A100")
    drawn = (SUMMARIES.workload(seed, "opt-13b") for seed in SEEDS)
    found = [attained_rate(workload, deployment, slo) / deployment.devices_total for workload in drawn]
    lasting = fmean(rates["3P2D"] for rates in per_device(SUMMARIES))
    inputs = f"{SUMMARIES.inputs} (prompt and output together about 1600 given); {lasting:.2f} could last"
    yield sampled("3p2d", "summarisation, 3P2D, attainment alone", 10.09, found, PER_GPU, 2, inputs)


def applications() -> Iterator[Comparison]:
    """The best split against the best colocated policy for three applications."""
    printed = (("chat", CHAT, 1.07, "3P2D"), ("code", CODE, 1.22, "3P1D"), ("summarisation", SUMMARIES, 0.78, None))
    for name, application, ratio, split in printed:
        found = per_device(application)
        inputs = f"{application.inputs}; the best of {', '.join(POLICIES)}"
        yield sampled(
            f"{name}.ratio", f"{name}: best xPyD over best colocated", ratio, advantages(found), "x", 2, inputs
        )
        if split is not None:
            yield text(f"{name}.split", f"{name}: best xPyD", split, best_of(found, SPLITS), application.inputs)
    for name, application, ratio in (("chat", CHAT, 1.12), ("code", CODE, 1.22)):
        gains = advantages(per_device(application), ["prefill-first"])
        what = f"{name}: best xPyD over prefill-first"
        yield sampled(f"{name}.prefill-first", what, ratio, gains, "x", 2, application.inputs)
    wrong = [found["1P2D"] for found in per_device(CHAT)]
    yield sampled("chat.1p2d", "chat: 1P2D, the wrong ratio", 1.65, wrong, PER_GPU, 2, CHAT.inputs)


def scaled_slos() -> Iterator[Comparison]:
    """Both limits of chat times a factor."""
    tight = per_device(CHAT, 0.75)
    what = "chat, limits x 0.75: best xPyD over best colocated"
    yield sampled("0.75", what, 3.3, advantages(tight), "x", 1, CHAT.inputs)
    what = "chat, limits x 0.75: best colocated"
    yield text("0.75-policy", what, "prefill-first", best_of(tight, POLICIES), CHAT.inputs)
    means = [fmean(advantages(per_device(CHAT, scale))) for scale in RELAXED]
    what = "chat, limits as they are and relaxed: best xPyD over best colocated"
    inputs = f"{CHAT.inputs}; factors {', '.join(f'{scale:g}' for scale in RELAXED)} (only 1 given)"
    yield within("relaxed", what, (1.07, 1.24), (min(means), max(means)), "x", 2, inputs)
    policy = best_of(per_device(CHAT, RELAXED[-1]), POLICIES)
    what = f"chat, limits x {RELAXED[-1]:g}: best colocated"
    yield text("relaxed-policy", what, "chunked=512", policy, inputs)
