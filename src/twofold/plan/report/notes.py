"""What the report says in words: figures under the headline, notes on the pictures, assumptions."""

import math
from typing import Any

from twofold.cost.roofline import Roofline
from twofold.plan.report.evidence import Evidence
from twofold.plan.report.kinds import LOOKS, OTHER
from twofold.plan.report.tables import per_million
from twofold.plan.report.words import count, milliseconds, number, percent
from twofold.spec.slo import Slo

WORKLOAD = {"span_s": "span as given, s", "rate": "rate as given, requests/s"}
WORDS = (
    ("TTFT", "arrival to the first token"),
    ("TBT", "the gap between two tokens; every gap of every request counts once"),
    ("TPOT", "the mean gap of one request"),
    ("SLO met", "the share of requests within all limits; refused and unfinished ones count against it"),
    ("goodput", "the highest sustainable rate with the demanded share; sustainable: the median TTFT is at most 2 s"),
    ("ties", "ranks that the noise of the simulated requests could swap with this one"),
    ("trap", "the rate at which a short replay passed while its queue still grew; the goodput is what lasts"),
    ("replica", "one copy of the model with one scheduler"),
    ("prefill-first", "whole prompts as soon as they fit, else decodes: decodes stall meanwhile"),
    ("mixed", "decodes and whole prompts in one step"),
    ("chunked", "decodes, and pieces of prompts up to a budget a step"),
    ("multiplexed", "decodes and a prompt side by side on two parts of one device"),
    ("hybrid", "disaggregated replicas beside replicas that do both"),
    ("disaggregated", "prefill (P) and decode (D) on different devices; KV crosses a link"),
    ("B, P, D", "replicas that do both, prefill, decode; tp2: on two devices, tensor parallel; pp2: two stages"),
)


def headlines(evidence: Evidence) -> list[tuple[str, str, str]]:
    """Name, figure and a note on it: goodput, SLO, workload, certificate, cost."""
    plan, row = evidence.plan, evidence.plan.rows[0]
    low, high, found = row["low_req_s"], row["high_req_s"], plan.to_dict()["certificate"]
    between = "" if low is None or high is None else f"90% interval {number(low)}–{number(high)}; "
    share = f"{number(row['goodput_per_device_req_s'])} per device; limited by {row['limit']}"
    met = f"met by {percent(row['attainment'])} of requests at that rate" if plan.slo.limits else "met at that rate"
    workload = plan.workload
    prompt, output = (number(float(tokens.mean())) for tokens in (workload.prompt_tokens, workload.output_tokens))
    sizes = f"{count(len(workload), 'request')} of {prompt} prompt and {output} output tokens on average"
    return [
        ("Goodput", f"{number(evidence.rate)} req/s", between + share),
        ("SLO", readable(plan.slo), met),
        ("Workload", workload.name, sizes),
        ("Certified", headline_of(found), counts_of(found)),
        _cost(evidence),
    ]


def _cost(evidence: Evidence) -> tuple[str, str, str]:
    row = evidence.plan.rows[0]
    power = f"{number(row['watts'])} W to provision"
    million = per_million(row["usd_per_hour"], evidence.rate)
    if million is None:
        return "Energy", f"{number(evidence.tails['joules'][0])} J a request", power
    return "Cost", f"${number(million)} per 1M requests", f"${number(row['usd_per_hour'])} an hour, {power}"


def readable(slo: Slo) -> str:
    """An SLO with signs instead of the letters that a keyboard has."""
    limits, _, share = str(slo).replace("<=", " ≤ ").partition(" @")
    return f"{limits} for {share} of requests" if slo.limits else limits


def headline_of(found: dict[str, Any]) -> str:
    """What certifies the best, in a few words."""
    total = f"{found['candidates']:,}"
    if math.isinf(found["gap"]):
        return f"not known of {total}"
    return f"best of {total}" if not found["gap"] else f"within {percent(found['gap'])} of the best of {total}"


def counts_of(found: dict[str, Any]) -> str:
    """What became of the deployments that were not chosen."""
    return (
        f"{found['pruned_by_bound']:,} ruled out by a bound, {found['pruned_by_probe']:,} by one probe, "
        f"{found['measured']:,} measured"
    )


def certificate(found: dict[str, Any]) -> str:
    """What certifies the best, in full."""
    text = f"Of {count(found['candidates'], 'deployment')} that fit the devices: {counts_of(found)}. "
    if found["stopped"]:
        text += f"The search stopped early ({found['stopped']}). "
    if math.isinf(found["gap"]):
        return f"{text}It ended before all had a bound: how much better another one could be is not known."
    if found["gap"]:
        return f"{text}No other can be better than the best by more than {percent(found['gap'])} under the assumptions."
    return f"{text}No other can be better than the best under the assumptions: the gap is 0."


def interval_note(row: dict[str, Any]) -> str:
    """How to read the whiskers, where there are any, and what the cost model cannot tell from the best."""
    told = "Intervals were not computed."
    if row["low_req_s"] is not None:
        told = (
            "The whiskers and parentheses are 90% intervals of the noise in the requests; ties are ranks it could swap."
        )
    if row["cost_error"] is None:
        return told
    others = ", ".join(map(str, row["not_told_from"]))
    untold = f"cannot tell it from {others}" if others else "tells it from the next ones"
    error = f"{percent(row['cost_error'])}, one standard deviation"
    return f"{told} The cost model knows the steps of the best to within {error}, and {untold}."


def missing(evidence: Evidence) -> str:
    """The kinds without a champion."""
    absent = [kind for kind in LOOKS if kind != OTHER and kind not in {each.kind for each in evidence.champions}]
    return f"Not tried, or sustaining no rate: {', '.join(absent)}." if absent else ""


def stall_note(evidence: Evidence) -> str:
    """What the picture of the stall shows."""
    scene = evidence.scene
    stalls, chosen = scene.acts
    return (
        f"The same prompt of {scene.prompt_tokens:,} tokens among the same requests, at {number(scene.rate)} "
        "requests/s. A bar is a step of a replica that serves it; the dashed line is its arrival, the underline the "
        f"steps that compute it. Running requests wait up to {milliseconds(stalls.longest_gap)} ms for a token "
        f"with {stalls.deployment}, up to {milliseconds(chosen.longest_gap)} ms with {chosen.deployment}."
    )


def assumptions(evidence: Evidence) -> list[tuple[str, str]]:
    """The constants of the cost model, and where the devices and the model come from."""
    found = [("cost model", (evidence.plan.roofline or Roofline()).describe())]
    for kind in evidence.plan.resources.kinds:
        device = kind.device
        found.append(
            (
                device.name,
                f"{device.memory / 1e9:g} GB at {device.bandwidth / 1e9:,.0f} GB/s, ${device.price_per_hour:g} an hour",
            )
        )
        found.append((f"{device.name} from", f"{device.source}; price: {device.price_source}"))
    found.append((evidence.plan.model.name, evidence.plan.model.source))
    return [*found, ("seed", str(evidence.plan.best.deployment.seed))]


def workload_facts(described_as: dict[str, Any]) -> list[tuple[str, str]]:
    """The numbers of the workload, a line each."""
    return [(WORKLOAD.get(name, name.replace("_", " ")), _said(value)) for name, value in described_as.items()]


def _said(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_said(each)}" for name, each in value.items())
    return number(value) if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
