"""A long prompt arrives: the steps of the replicas that it meets, in two deployments under the same requests."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from twofold.plan.ranking import Candidate, Plan
from twofold.plan.report.kinds import kind_of
from twofold.plan.report.steps import TOUCHING_S, TRANSFER, in_order, longest_gap, timeline_of, with_lanes
from twofold.simulate.run import simulate
from twofold.spec.deployment import Deployment
from twofold.spec.group import Group
from twofold.spec.workload import Workload

STALLS = ("prefill-first", "mixed")
BEFORE_S, AFTER_S = 0.2, 0.8
LIGHT = 0.5


@dataclass(frozen=True)
class Act:
    """One deployment in the scene, times in seconds from the arrival of the long prompt.

    ``bars``: lane, what (decode, prompt, decode + prompt, KV transfer), start, end, long (computes the long prompt);
    ``lanes`` in order. ``longest_gap`` between two tokens of running requests after the arrival, in what is drawn.
    """

    kind: str
    deployment: Deployment
    lanes: list[str]
    bars: pl.DataFrame
    longest_gap: float
    first_token: float


@dataclass(frozen=True)
class Scene:
    """The long prompt of ``prompt_tokens`` at ``rate`` requests/s; the deployment that stalls, then the chosen one."""

    rate: float
    prompt_tokens: int
    acts: tuple[Act, ...]


def scene_of(plan: Plan, best_of: Mapping[str, Candidate]) -> Scene:
    """The scene for the best of a plan beside the best prefill-first (or mixed) one of ``best_of``.

    The rate is one that both sustain: the other's goodput, or half of the best's where the other was not measured.
    The prompt is the longest of the middle 80 % of the requests.
    """
    rival, sustained = rival_of(plan, best_of)
    rate = min(sustained, plan.best.found.rate) or LIGHT * plan.best.found.rate
    workload = plan.workload.at_rate(rate)
    long = longest_in_the_middle(workload)
    ends = np.searchsorted(workload.arrival_s, workload.arrival_s[long] + AFTER_S)
    seen = workload.head(max(int(ends), long + 1))
    acts = [_act(plan, deployment, seen, long) for deployment in (rival, plan.best.deployment)]
    return Scene(rate, int(workload.prompt_tokens[long]), tuple(acts))


def rival_of(plan: Plan, best_of: Mapping[str, Candidate]) -> tuple[Deployment, float]:
    """What stalls, and its goodput; the best's own replicas turned prefill-first (0.0) where none was measured."""
    own = kind_of(plan.best.deployment)
    for kind in STALLS:
        if kind in best_of and kind != own:
            return best_of[kind].deployment, best_of[kind].found.rate
    first, total = plan.best.deployment.groups[0], plan.best.deployment.devices_total
    policy = next(kind for kind in STALLS if kind != own)
    replicas = max(total // (first.tp * first.pp), 1)
    group = Group(count=replicas, tp=first.tp, pp=first.pp, device=first.device, policy=policy)
    chosen = plan.best.deployment
    return Deployment(model=chosen.model, device=chosen.device, groups=(group,), router=chosen.router), 0.0


def longest_in_the_middle(workload: Workload) -> int:
    """The index of the longest prompt among the middle 80 % of the requests."""
    first = len(workload) // 10
    middle = workload.prompt_tokens[first : max(len(workload) - first, first + 1)]
    return first + int(np.argmax(middle))


def _act(plan: Plan, deployment: Deployment, workload: Workload, long: int) -> Act:
    result = simulate(workload, deployment, plan.slo, roofline=plan.roofline, timeline=True, step_by_step=True)
    life = result.requests.row(long, named=True)
    prefiller, decoder, arrival = life["prefill_replica"], life["decode_replica"], life["arrival_s"]
    lines = timeline_of(result).with_columns(pl.col("start", "end") - arrival)
    ours = (pl.col("request") == long) | ((pl.col("request") < 0) & pl.col("replica").is_in([prefiller, decoder]))
    seen = lines.filter(ours & (pl.col("end") > -BEFORE_S) & (pl.col("start") < AFTER_S))
    start, first_token = (
        math.nan if at is None else at - arrival for at in (life["start_at_s"], life["first_token_at_s"])
    )
    within = (pl.col("start") >= start - TOUCHING_S) & (pl.col("end") <= first_token + TOUCHING_S)
    computed = (pl.col("prompt_tokens") > 0) & (pl.col("replica") == prefiller) & within
    bars = with_lanes(result, seen.with_columns(computed.alias("long")))
    gap = longest_gap(bars.filter((pl.col("replica") == decoder) & (pl.col("what") != TRANSFER)))
    return Act(kind_of(deployment), deployment, in_order(bars["lane"]), bars, gap, first_token)
