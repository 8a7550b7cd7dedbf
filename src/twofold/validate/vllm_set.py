"""Measured vLLM runs, predicted from the operator profile of the same card and model."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twofold.cost.measured import Measured
from twofold.cost.operators import read_operators
from twofold.cost.roofline import Roofline
from twofold.errors import SpecError
from twofold.simulate.capacity import kv_tokens
from twofold.simulate.result import Result
from twofold.simulate.run import simulate
from twofold.spec import catalog
from twofold.spec.deployment import Deployment
from twofold.spec.group import Group
from twofold.validate.evidence import Line, MeasuredSet, cloud, compared
from twofold.validate.vllm_run import VllmRun, read_vllm_run

Floats = NDArray[np.float64]
GOALS = {"RTX-4090": (0.01, 0.01, 0.03), "RTX-PRO-6000": (0.03, 0.01, None)}
"""Goals by device: TTFT mean, TPOT mean, every percentile."""
STATISTICS = {"Mean": None, "Median": 50.0, "P90": 90.0, "P95": 95.0, "P99": 99.0}
LONGEST_STEP_S, HALVINGS = 0.01, 20
RULE = (
    "vLLM's own settings as the run reports them (budget, sequences, KV blocks, asynchronous scheduling, prefix "
    "cache), its defaults where it does not, CUDA graphs among them; step times from the operator profile of the card. "
    "First with the profile alone, on all requests. Then with seconds of the host a step, fitted to the mean TPOT of "
    "every other request, on the requests that were left out."
)


def predict(name: str, folder: Path) -> MeasuredSet:
    """Read and predict the run of ``folder``."""
    run = read_vllm_run(folder)
    costs = read_operators(folder / "profile", Roofline(graph_tokens=run.graph_tokens))
    deployment = as_deployed(run, costs)
    peers = _peers(folder / "validation" / "summary.txt")
    goals = GOALS.get(_device(costs), (None, None, None))
    alone = simulate(run.workload, deployment, roofline=costs)
    step_s = fitted_step_s(run, deployment, costs)
    fitted = simulate(run.workload, deployment, roofline=costs.with_host(step_s=step_s))
    kept = np.arange(len(run.prompt)) % 2 == 1
    everyone = np.ones(len(kept), bool)
    lines = [*_latencies(run, alone, everyone, goals, peers, "profile alone")]
    lines += _latencies(run, fitted, kept, goals, peers, f"host {1e3 * step_s:.2f} ms a step, held out")
    lines += _capacity(run, deployment)
    budget = deployment.groups[0].budget_tokens or 0
    return MeasuredSet(
        name,
        f"vLLM {run.meta.get('vllm_version', '')} serving {run.name}, {len(run.prompt)} requests",
        RULE,
        tuple(lines),
        (
            cloud("TTFT of each request", "s", fitted.ttft_s[kept], run.ttft_s[kept], "held out"),
            cloud("TPOT of each request", "s", fitted.tpot_s[kept], run.tpot_s[kept], "held out"),
        ),
        (*ranks(run, alone, goals[2]), *_reasons(run, budget, next(iter(costs.rows.values())).longest_share)),
    )


def as_deployed(run: VllmRun, costs: Measured) -> Deployment:
    """The deployment of a run, with vLLM's defaults where the run does not say. SpecError for what is not modelled."""
    engine, chosen = run.meta.get("engine_kwargs", {}), run.meta.get("scheduler_config", {})
    if engine.get("enable_expert_parallel") or int(engine.get("pipeline_parallel_size") or 1) > 1:
        raise SpecError("vllm", run.name, "accepted: no expert or pipeline parallelism, which profiles lack")
    device = catalog.device(_device(costs))
    fraction = run.meta.get("kv_cache", {}).get("gpu_memory_utilization") or 0.9
    group = Group(
        count=int(engine.get("data_parallel_size") or 1),
        tp=int(engine.get("tensor_parallel_size") or 1),
        policy="chunked",
        budget_tokens=int(engine.get("max_num_batched_tokens") or 2048),
        max_batch=int(engine.get("max_num_seqs") or 256),
        block_tokens=run.block_tokens,
        kv_tokens=run.kv_tokens,
        memory_fraction=float(fraction),
        prefix_cache=bool(run.meta.get("kv_cache", {}).get("enable_prefix_caching", True)),
        async_scheduling=bool(chosen.get("async_scheduling", True)),
    )
    model = next(iter(costs.rows)).model
    return Deployment(model=catalog.model(model), device=device, groups=(group,))


def fitted_step_s(run: VllmRun, deployment: Deployment, costs: Measured) -> float:
    """Seconds of the host a step at which the mean TPOT of every other request is as measured; 0 if less would be."""
    half = np.arange(len(run.prompt)) % 2 == 0
    measured = float(run.tpot_s[half].mean())
    low, high = 0.0, LONGEST_STEP_S
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        result = simulate(run.workload, deployment, roofline=costs.with_host(step_s=middle))
        if float(result.tpot_s[half].mean()) < measured:
            low = middle
        else:
            high = middle
    return 0.0 if high < LONGEST_STEP_S / 2**HALVINGS * 2 else 0.5 * (low + high)


def _device(costs: Measured) -> str:
    return next(iter(costs.rows)).device


def _at(values: Floats, percentile: float | None) -> float:
    return float(values.mean() if percentile is None else np.percentile(values, percentile))


def _latencies(
    run: VllmRun,
    result: Result,
    kept: NDArray[np.bool_],
    goals: tuple[float | None, ...],
    peers: dict[str, str],
    how: str,
) -> Iterator[Line]:
    pairs = (
        ("TTFT", result.ttft_s, run.ttft_s, goals[0]),
        ("TPOT", result.tpot_s, run.tpot_s, goals[1]),
        ("Latency", result.e2e_s, run.e2e_s, None),
    )
    for metric, predicted, measured, goal in pairs:
        for statistic, percentile in STATISTICS.items():
            if metric == "Latency" and percentile is not None:
                continue
            yield compared(
                f"{metric} {statistic.lower() if percentile is None or percentile == 50 else statistic}, {how}",
                _at(predicted[kept], percentile),
                _at(measured[kept], percentile),
                "s",
                goal if percentile is None else goals[2],
                peers.get(f"{metric} {statistic}", ""),
            )


def _capacity(run: VllmRun, deployment: Deployment) -> Iterator[Line]:
    memory = run.meta.get("hardware", {}).get("device_total_memory_bytes")
    if run.kv_tokens is None or memory is None:
        return
    group = deployment.groups[0].replaced(kv_tokens=None)
    model = catalog.model(deployment.model)
    device = catalog.device(deployment.device or "").replaced(memory=float(memory))
    yield compared("KV capacity from memory and weights", kv_tokens(model, device, group), run.kv_tokens, "tokens")


def _peers(path: Path) -> dict[str, str]:
    """What LLMServingSim reached, by metric and statistic, from the summary beside the run; nothing without one."""
    if not path.is_file():
        return {}
    found = re.findall(r"^(\w+ \w+)\s+[\d.]+\s+[\d.]+\s+([+-][\d.]+)%", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {what: f"LLMServingSim {error} %" for what, error in found}


def ranks(run: VllmRun, alone: Result, goal: float | None) -> tuple[str, ...]:
    """Where the percentiles that missed ``goal`` lie among the requests as they were measured."""
    missed = []
    for metric, predicted, measured in (("TTFT", alone.ttft_s, run.ttft_s), ("TPOT", alone.tpot_s, run.tpot_s)):
        for name, percentile in STATISTICS.items():
            value = _at(predicted, percentile)
            if percentile is None or goal is None or abs(value / _at(measured, percentile) - 1.0) <= goal:
                continue
            ordered = np.sort(measured)
            place = int(np.searchsorted(ordered, value, side="right"))
            nearest = " and ".join(f"{1e3 * each:,.1f} ms" for each in ordered[max(0, place - 1) : place + 1])
            missed.append(
                f"{100 * place / len(ordered):.1f} % of the requests were within the {metric} predicted as {name} "
                f"({1e3 * value:,.1f} ms; the nearest measured are {nearest})"
            )
    return (f"Percentiles missed, by rank: {', '.join(missed)}.",) if missed else ()


def _reasons(run: VllmRun, budget: int, longest_share: float) -> tuple[str, ...]:
    reasons = []
    crowded = run.crowded_steps(budget)
    if crowded:
        reasons.append(
            f"{crowded} of the run's plans admit prompts of more than {budget:,} tokens at once, which only prompts "
            "with a common beginning can be: requests are turns of the same conversations. The run does not tell "
            "which, so each is predicted with a text of its own, and fewer fit into the memory than did; where a queue "
            "stops for long, a few more or less move a percentile by several per cent."
        )
    if run.kv_tokens is not None:
        reasons.append(
            "The capacity predicted is what the weights leave. vLLM also keeps activations, graphs and the runtime's "
            "own memory out of it; the prediction of the run takes the reported blocks."
        )
    uneven = "Decodes were profiled with contexts of one length; attention waits for the longest of uneven ones. "
    if longest_share:
        uneven += f"How far, the profile tells: {100 * longest_share:.1f} % of the way from the mean to the longest."
    else:
        uneven += "How far, this profile does not tell; the seconds of the host that are fitted stand for it too."
    reasons.append(uneven)
    return tuple(reasons)
