"""Random deployments, workloads and SLOs: everything that the bounds must hold for."""

from typing import Any, NamedTuple

import numpy as np

from twofold.scheduler.split import stream_groups
from twofold.simulate.capacity import kv_token_bytes
from twofold.simulate.result import Result
from twofold.spec import catalog
from twofold.spec.deployment import Deployment
from twofold.spec.device import Device
from twofold.spec.group import Group
from twofold.spec.model import Model
from twofold.spec.slo import PercentileLimit, Slo
from twofold.spec.workload import Workload

Generator = np.random.Generator
MODELS: tuple[str | dict[str, Any], ...] = (
    "Llama-3-8B",
    "Qwen2.5-0.5B",
    "SmolLM2-135M",
    "OPT-1.3B",
    "gpt-oss-20b",
    "Qwen3-30B-A3B",
    {"like": "DeepSeek-V3", "name": "little-mla", "layers": 4},
)
DEVICES = ("H100", "A100-80GB", "H20", "B200", "L40S")
POLICIES = ("chunked", "chunked", "prefill-first", "mixed", "multiplexed", "request-level")
LAYOUTS = ("B", "B", "B", "BB", "PD", "PD", "PD", "PDD", "PPD", "PDB")


class Case(NamedTuple):
    """What a bound is asked about."""

    workload: Workload
    deployment: Deployment
    model: Model


def values_of(result: Result) -> dict[str, np.ndarray]:
    """What every request of a run has shown, by metric."""
    return {"ttft": result.ttft_s, "tpot": result.tpot_s, "tbt": result.max_tbt_s, "e2e": result.e2e_s}


def some(rng: Generator, *choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def log_uniform(rng: Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def random_case(rng: Generator) -> Case:
    """A deployment of a model, and requests that may use its memory to the last block."""
    workload = random_workload(rng)
    model = catalog.model(some(rng, *MODELS))
    return Case(workload, random_deployment(rng, model, workload), model)


def random_workload(rng: Generator) -> Workload:
    n = int(log_uniform(rng, 2, some(rng, 60, 400)))
    prompt, output = _lengths(rng, n, 4000), _lengths(rng, n, 400)
    gaps = rng.exponential(1.0, n) ** some(rng, 0.0, 1.0, 3.0)
    arrival = np.concatenate([[0.0], np.cumsum(gaps[1:]) + 1e-3])
    hashes = _hashes(rng, prompt, output) if rng.random() < 0.3 else {}
    return Workload("random", arrival, prompt, output, priority=rng.integers(0, 3, n), **hashes).validate()


def _lengths(rng: Generator, n: int, most: int) -> np.ndarray:
    kind, typical = some(rng, "fixed", "lognormal", "few long", "short"), log_uniform(rng, 2, most)
    if kind == "fixed":
        return np.full(n, int(typical))
    if kind == "lognormal":
        return np.clip(rng.lognormal(np.log(typical), 0.8, n).astype(np.int64), 1, 4 * most)
    if kind == "few long":
        return np.where(rng.random(n) < 0.1, int(4 * typical), 1 + int(typical / 10))
    return rng.integers(1, some(rng, 2, 4, 40), n)


def _hashes(rng: Generator, prompt: np.ndarray, output: np.ndarray) -> dict[str, Any]:
    """Requests that share the first pieces with the others of a family, or all of them."""
    piece, families = int(some(rng, 1, 16, 64)), int(some(rng, 1, 3))
    ids: list[int] = []
    start = [0]
    for i, (p, o) in enumerate(zip(prompt, output, strict=True)):
        family, known = int(rng.integers(families)), int((p + o * (rng.random() < 0.5)) // piece)
        shared = min(known, int(log_uniform(rng, 1, 4000) // piece))
        ids += [1 + family * 100_000 + k for k in range(shared)]
        ids += [10_000_000 + 100_000 * i + k for k in range(known - shared)]
        start.append(len(ids))
    return {"hash_tokens": piece, "hash_start": np.array(start), "hash_ids": np.array(ids, np.int64)}


def random_deployment(rng: Generator, model: Model, workload: Workload) -> Deployment:
    layout, device = some(rng, *LAYOUTS), some(rng, *DEVICES)
    mixed_kinds = rng.random() < 0.25
    options: dict[str, Any] = {
        "router": some(rng, "round-robin", "random", "least-requests", "least-tokens", "power-of-two", "kv-aware"),
        "seed": int(rng.integers(100)),
    }
    roles = {"B": "both", "P": "prefill", "D": "decode"}
    groups = []
    for letter in layout:
        kind = catalog.device(some(rng, *DEVICES) if mixed_kinds else device)
        groups.append(random_group(rng, roles[letter], kind, model, workload))
    if "D" in layout:
        pipelined = any(group.pp > 1 for group in groups)
        options |= {
            "layerwise": rng.random() < 0.3 and not pipelined,
            "transfer": some(rng, "pull", "push"),
            "decode_choice": some(rng, "at-prefill-end", "at-arrival"),
            "mixed_pool": rng.random() < 0.25 and not pipelined,
            "mixed_prompt_tokens": int(log_uniform(rng, 10, 10000)),
            "link": some(rng, None, "NVLink4", "25GbE"),
            "link_per": some(rng, "device", "replica"),
            "fabric_bytes_per_s": some(rng, None, None, 1e9, 1e10),
        }
    return Deployment(model=model, device=device, groups=tuple(groups), **options)


def random_group(rng: Generator, role: str, device: Device, model: Model, workload: Workload) -> Group:
    fields: dict[str, Any] = {"role": role, "device": device, "count": int(some(rng, 1, 1, 2, 3))}
    fields |= {"tp": _degree(rng, model), "pp": int(some(rng, 1, 1, 1, 2, 4))}
    fields["block_tokens"] = int(some(rng, 16, 16, 1, 64))
    fields["admission"] = some(rng, "grow", "grow", "reserve")
    fields["order"] = some(rng, "fcfs", "fcfs", "priority", "short-first")
    if rng.random() < 0.5:
        fields["max_batch"] = int(some(rng, 1, 2, 3, 8, 40))
    if rng.random() < 0.2:
        fields["power_cap_w"] = round(device.idle_w + (device.tdp_w - device.idle_w) * rng.uniform(0.2, 1.0))
    if model.experts and rng.random() < 0.4:
        fields["expert_parallel"] = True
    if role != "decode":
        fields |= _random_policy(rng, role, device, fields)
    if workload.hash_tokens and rng.random() < 0.3:
        fields["prefix_cache"] = bool(rng.random() < 0.5)
    return Group(**fields | {"memory_fraction": _memory(rng, model, device, fields, workload)})


def _degree(rng: Generator, model: Model) -> int:
    return int(some(rng, *[tp for tp in (1, 1, 2, 4) if model.heads % tp == 0]))


def _memory(rng: Generator, model: Model, device: Device, fields: dict[str, Any], workload: Workload) -> float:
    """A share that leaves room for a few requests, or for about one of the longest, or most of what there is.

    Blocks that are identified are kept one by one, so there are never many of them.
    """
    if rng.random() < 0.4 and not workload.hash_tokens:
        return 0.9
    longest = float((workload.prompt_tokens + workload.output_tokens).max())
    tokens = max(longest * log_uniform(rng, 0.8, 20.0), fields["block_tokens"] + 1.0)
    wanted = model.weight_bytes + kv_token_bytes(model, fields["tp"]) * tokens * 1.001
    return min(1.0, float(wanted / (device.memory * fields["tp"] * fields["pp"])))


def _random_policy(rng: Generator, role: str, device: Device, fields: dict[str, Any]) -> dict[str, Any]:
    chosen = some(rng, *POLICIES)
    if role == "prefill":
        chosen = some(rng, "prefill-first", "prefill-first", "chunked", "mixed")
    if chosen == "multiplexed":
        return {"policy": chosen, "pp": 1} | _random_split(rng, device)
    found: dict[str, Any] = {"policy": chosen}
    if chosen == "chunked":
        budget = {"budget_tokens": int(some(rng, 16, 128, 512, 2048))}
        found |= {"budget_s": log_uniform(rng, 2e-3, 0.1)} if rng.random() < 0.3 else budget
    if chosen == "chunked" and rng.random() < 0.2:
        found["prefill_every"] = int(some(rng, 1, 2, 8))
    if chosen == "prefill-first" and role == "both" and rng.random() < 0.2:
        found["decode_every"] = int(some(rng, 1, 2, 8))
    if role == "prefill" and rng.random() < 0.3:
        found["prefill_batch_tokens"] = int(some(rng, 1, 1000, 50000))
    return found


def _random_split(rng: Generator, device: Device) -> dict[str, Any]:
    prefill, decode = some(rng, *stream_groups(device.units, device.compute_capability).divisions[1:-1].tolist())
    split = some(
        rng, {}, {"split": "slo", "split_tbt_s": log_uniform(rng, 3e-3, 0.1)}, {"split": f"{prefill}:{decode}"}
    )
    return split | {
        "split_curve": some(rng, "measured", "saturation:0.5", "saturation:0.2"),
        "contention_decode": some(rng, 1.0, 1.2),
        "contention_prefill": some(rng, 1.0, 1.2),
    }


def tight_case(rng: Generator) -> Case:
    """Few replicas, requests much alike, and where phases are apart a fast one before a slow one with little memory."""
    n, prompt, output = int(log_uniform(rng, 20, 300)), log_uniform(rng, 1, 3000), log_uniform(rng, 2, 200)
    spread = some(rng, 0.0, 0.2)
    prompts = np.maximum(1, rng.lognormal(np.log(prompt), spread, n).astype(np.int64))
    outputs = np.maximum(1, rng.lognormal(np.log(output), spread, n).astype(np.int64))
    if rng.random() < 0.3:
        outputs = rng.integers(1, 4, n)
    hashes = _hashes(rng, prompts, outputs) if rng.random() < 0.25 else {}
    workload = Workload("tight", np.arange(float(n)), prompts, outputs, **hashes).validate()
    model = catalog.model(some(rng, *MODELS[:6]))
    layout, slow, fast = some(rng, "B", "BB", "PD", "PD"), some(rng, "L40S", "H100"), some(rng, "B200", "H100")
    groups = []
    for letter in layout:
        device = catalog.device(fast if letter == "P" else slow)
        group = random_group(rng, {"B": "both", "P": "prefill", "D": "decode"}[letter], device, model, workload)
        count = int(some(rng, 1, 4)) if letter == "P" else 1
        groups.append(group.replaced(count=count, block_tokens=int(some(rng, 1, 1, 16))))
    mixed = layout == "PD" and rng.random() < 0.15 and all(group.pp == 1 for group in groups)
    return Case(workload, Deployment(model=model, groups=tuple(groups), mixed_pool=mixed, link="NVLink5"), model)


def tight_slo(rng: Generator, values: dict[str, np.ndarray]) -> Slo | None:
    """One or two limits that a run with these ``values`` just keeps; None when it keeps none."""
    share, kind = some(rng, 1.0, 1.0, 0.9, 0.6), some(rng, "e2e", "ttft", "ttft", "tpot", "both", "percentiles")
    found = {metric: max(1e-9, _at(values[metric], share)) for metric in ("ttft", "tpot", "e2e")}
    if not all(limit < np.inf for limit in found.values()):
        return None
    if kind == "both":
        met = (values["ttft"] <= found["ttft"]) & (values["tpot"] <= found["tpot"])
        return Slo(ttft_s=found["ttft"], tpot_s=found["tpot"], attainment=float(met.mean())) if met.any() else None
    if kind == "percentiles":
        limits = (PercentileLimit(metric, 100.0 * share, found[metric]) for metric in ("tpot", "e2e"))
        return Slo(percentiles=tuple(limits))
    return Slo(**{f"{kind}_s": found[kind]}, attainment=share)


def kept_by(rng: Generator, values: dict[str, np.ndarray], gap_at: Any) -> Slo:
    """An SLO that a run with these ``values`` a request (NaN: never) just keeps; ``gap_at(share)`` of all its gaps."""
    chosen = [metric for metric in values if rng.random() < 0.5] or [some(rng, *values)]
    single = {metric for metric in chosen if rng.random() < 0.6}
    limits, met = {}, np.ones(len(values["ttft"]), bool)
    for metric in sorted(single):
        limits[f"{metric}_s"] = max(1e-9, _at(values[metric], rng.uniform(0.5, 1.0)))
        met &= values[metric] <= limits[f"{metric}_s"]
    percentiles = []
    for metric in sorted(set(chosen) - single):
        percentile = float(some(rng, 50, 90, 99, 100))
        share = percentile / 100.0
        found = gap_at(share) if metric == "tbt" else _at(values[metric], share)
        percentiles.append(PercentileLimit(metric, percentile, max(1e-9, found)))
    finite = all(0 < limit < np.inf for limit in [*limits.values(), *(each.limit_s for each in percentiles)])
    if not finite or (limits and not met.any()):
        return Slo(ttft_s=1e6, attainment=0.5)
    return Slo(**limits, attainment=float(met.mean()) if limits else 0.9, percentiles=tuple(percentiles))


def _at(values: np.ndarray, share: float) -> float:
    return float(np.quantile(np.where(np.isnan(values), np.inf, values), share, method="inverted_cdf"))
