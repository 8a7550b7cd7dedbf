"""One phase alone: a prefill-only and a decode-only replica on the simulator (DistServe, section 4.1).

The simulator knows prefill and decode replicas in pairs. The other side of the pair is made so fast and so large that
it is no limit: an ideal device behind an ideal link. So what runs is the very replica that is deployed later, with its
policy, pipeline and memory.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from twofold.cost.contract import CostModel
from twofold.cost.roofline import cost_record
from twofold.cost.step import Load, at, chunk_pairs, full_speed, stage_line, stage_seconds
from twofold.errors import SpecError
from twofold.simulate.capacity import kv_tokens
from twofold.spec.deployment import Deployment
from twofold.spec.device import Device
from twofold.spec.group import Group
from twofold.spec.link import Link
from twofold.spec.model import DTYPE_BYTES, Model
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload

SATURATED = 0.75
IDEAL_RATE = 1e18
IDEAL_LINK = Link(name="ideal", bandwidth=IDEAL_RATE, efficiency=1.0, latency_s=0.0)


def prefill_alone(workload: Workload, model: Model, device: Device, prefill: Group) -> Deployment:
    """``prefill`` and, behind it, an ideal decode replica; run it with :func:`first_tokens` of the workload."""
    return _pair(model, device, prefill, _ideal(workload, model, "decode"))


def decode_alone(workload: Workload, model: Model, device: Device, decode: Group) -> Deployment:
    """``decode`` fed by an ideal prefill replica: a request comes with its KV, one step overhead after its arrival.

    Every request counts its TPOT from then on, waiting for room on the decode replica included.
    """
    return _pair(model, device, _ideal(workload, model, "prefill"), decode)


def first_tokens(workload: Workload) -> Workload:
    """The same prompts, each asking for one token: what a prefill replica does of the workload."""
    return replace(workload, output_tokens=np.ones_like(workload.output_tokens))


def phase_slos(slo: Slo) -> tuple[Slo, Slo]:
    """The limits of prefill (TTFT) and of decode (TPOT, TBT), each at the attainment of the whole.

    SpecError unless there is at least one of either and nothing else.
    """
    accepted = "accepted: a ttft limit and a tpot or tbt limit, since each phase is simulated alone"
    if slo.e2e_s is not None or any(limit.metric == "e2e" for limit in slo.percentiles):
        raise SpecError("slo", str(slo), accepted)
    of_all = [limit for limit in slo.percentiles if limit.metric == "ttft"]
    between = [limit for limit in slo.percentiles if limit.metric != "ttft"]
    if not (slo.ttft_s or of_all) or not (slo.tpot_s or slo.tbt_s or between):
        raise SpecError("slo", str(slo), accepted)
    prefill = Slo(ttft_s=slo.ttft_s, attainment=slo.attainment, percentiles=tuple(of_all))
    return prefill, replace(slo, ttft_s=None, percentiles=tuple(between))


def saturating_tokens(
    model: Model, device: Device, *, tp: int = 1, pp: int = 1, roofline: CostModel | None = None
) -> int:
    """L_m (DistServe, section 3.1): the shortest prompt that saturates the last stage, at most the model's context.

    On a roofline, the first that multiplies as long as it reads. On a fit, which has no roofline, the first from which
    the step grows by ``SATURATED`` of what growth in proportion to its tokens would be: its constant has become small.
    """
    record = cost_record(model, device, tp=tp, pp=pp, roofline=roofline)[0]
    low, high = 1, model.max_context
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _saturated(record, middle) else (middle + 1, high)
    return low


def _saturated(record: Any, tokens: int) -> bool:
    line, longer = (
        stage_line(record, Load(0, 0, n, chunk_pairs(0, n), 0, 1), full_speed(), True) for n in (tokens, tokens + 1)
    )
    if record.decode_pieces == 0:
        return bool(line.flops >= line.bytes)
    return bool((at(longer, 0) - at(line, 0)) * tokens >= SATURATED * at(line, 0))


def steady_decode_rate(
    workload: Workload, model: Model, device: Device, decode: Group, roofline: CostModel | None = None
) -> float:
    """Requests/s that a decode replica cannot exceed for ever, however loose its SLO; infinite without decodes.

    A request of p prompt and g + 1 output tokens takes g steps, which read ``g p + g (g - 1) / 2`` KV tokens of
    earlier steps and hold g more, or hold ``g (p + g + 1)`` where room for all is reserved. The batch and the memory
    limit the mean number of requests a step starts; a step's time is convex in what it carries (but for expert
    weights, nearly), so the step of the means is the fastest. Arrivals of a finite run can be faster than this.
    """
    prompts, gaps = workload.prompt_tokens.astype(np.float64), workload.output_tokens - 1.0
    steps = float(gaps.mean())
    if steps == 0.0:
        return float("inf")
    read = float((gaps * (prompts + (gaps - 1.0) / 2.0)).mean())
    held = float((gaps * (prompts + gaps + 1.0)).mean()) if decode.admission == "reserve" else read + steps
    starts_a_step = min(decode.max_batch / steps, kv_tokens(model, device, decode) / held)
    decodes, context = (int(starts_a_step * each / decode.pp) for each in (steps, read))
    record = cost_record(model, device, tp=decode.tp, pp=decode.pp, roofline=roofline)[0]
    load = Load(decodes, context, 0, 0, 0, decodes)
    return starts_a_step / (decode.pp * float(stage_seconds(record, load, full_speed(), True)))


def _pair(model: Model, device: Device, prefill: Group, decode: Group) -> Deployment:
    return Deployment(model=model, device=device, groups=(prefill, decode), link=IDEAL_LINK)


def _ideal(workload: Workload, model: Model, role: Literal["prefill", "decode"]) -> Group:
    tokens = int(workload.prompt_tokens.sum(dtype=np.int64) + workload.output_tokens.sum(dtype=np.int64))
    rounding = Group().block_tokens * (len(workload) + 1)
    device = Device(
        name="ideal",
        peak_flops=dict.fromkeys(DTYPE_BYTES, IDEAL_RATE * IDEAL_RATE),
        bandwidth=IDEAL_RATE,
        memory=int(model.weight_bytes) + model.kv_bytes_per_token * (tokens + rounding),
        units=1,
        tdp_w=1.0,
        idle_w=0.0,
        intra_link="memory",
        inter_link="memory",
    )
    fields: Mapping[str, Any] = {"max_prefill_tokens": tokens} if role == "prefill" else {}
    return Group(role=role, device=device, max_batch=len(workload), memory_fraction=1.0, prefix_cache=False, **fields)
