"""The roofline: a cost record from a model, a device and a parallelism."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Unpack

import numpy as np

from twofold.cost.contract import CostModel, Options, Reach, Regime
from twofold.cost.graphs import captured
from twofold.cost.step import COST, Load, chunk_pairs, full_speed
from twofold.cost.step import step_seconds as _step_seconds
from twofold.errors import SpecError
from twofold.spec import catalog
from twofold.spec.device import Device
from twofold.spec.link import Link
from twofold.spec.model import Model, dtype_bytes

MOST_GRAPH_TOKENS = 1 << 20


@dataclass(frozen=True)
class Roofline:
    """Constants of the cost model, all visible and all settable (``--set cost.flop_efficiency=0.6``).

    ``power_exponent``: dynamic power grows as speed to this power when a power cap slows the clock;
    ``memory_power``: share of the dynamic power that a bandwidth-bound step draws; ``host_bytes_per_s`` and
    ``disk_bytes_per_s``: how fast KV comes back from the tiers below the device (PCIe 4 x16 and an NVMe disk, in use);
    ``graph_tokens``: up to so many tokens a step is padded to a captured CUDA graph, see ``cost.graphs``; 0 for none.
    """

    flop_efficiency: float = 0.70
    byte_efficiency: float = 0.80
    step_overhead_s: float = 0.5e-3
    power_exponent: float = 2.0
    memory_power: float = 0.5
    host_bytes_per_s: float = 20e9
    disk_bytes_per_s: float = 3e9
    graph_tokens: int = 0

    def __post_init__(self) -> None:
        for field in ("flop_efficiency", "byte_efficiency", "memory_power"):
            value = getattr(self, field)
            if not 0 < value <= 1:
                raise SpecError(f"cost.{field}", value, "accepted: a number above 0 and at most 1")
        for field in ("host_bytes_per_s", "disk_bytes_per_s"):
            if getattr(self, field) <= 0:
                raise SpecError(f"cost.{field}", getattr(self, field), "accepted: bytes a second, above 0")
        if self.step_overhead_s < 0:
            raise SpecError("cost.step_overhead_s", self.step_overhead_s, "accepted: seconds, 0 or more")
        if type(self.graph_tokens) is not int or not 0 <= self.graph_tokens <= MOST_GRAPH_TOKENS:
            accepted = f"accepted: tokens, a whole number from 0 to {MOST_GRAPH_TOKENS}"
            raise SpecError("cost.graph_tokens", self.graph_tokens, accepted)
        if self.power_exponent < 1:
            raise SpecError("cost.power_exponent", self.power_exponent, "accepted: 1 or more")

    def describe(self) -> str:
        """All constants in one line."""
        return "roofline, " + ", ".join(f"{name} = {value:g}" for name, value in asdict(self).items())

    def knows(self, model: Model, device: Device, tp: int, power_cap_w: float | None = None) -> bool:
        """Whether the heads of the model can be cut so; any power cap that the device has will do."""
        return model.heads % tp == 0

    def error(self, regime: Regime, model: Model, device: Device, tp: int = 1) -> float | None:
        """None: nobody measured it."""
        return None

    def reach(self, model: Model, device: Device, tp: int = 1) -> Reach | None:
        """None: it does not end anywhere."""
        return None

    def record(self, model: Model, device: Device, **options: Unpack[Options]) -> np.recarray:
        """One COST record (an array of length 1), see :meth:`CostModel.record`."""
        tp, pp, spread = options.get("tp", 1), options.get("pp", 1), options.get("expert_parallel", False)
        _check_parallel(model, tp, pp, spread)
        record = np.zeros(1, COST).view(np.recarray)
        cost = record[0]
        _fill_model(cost, model, tp, pp)
        _fill_device(cost, model, device, self, options.get("power_cap_w"))
        _fill_exchange(cost, model, tp, pp, spread, options.get("link") or catalog.link(device.intra_link))
        cost.layers, cost.stages, cost.devices = model.layers, pp, tp * pp
        cost.overhead_s = self.step_overhead_s / pp
        cost.graph_tokens = captured(self.graph_tokens)
        cost.contention_decode, cost.contention_prefill = options.get("contention", (1.0, 1.0))
        return record


def cost_record(
    model: Model, device: Device, *, roofline: CostModel | None = None, **options: Unpack[Options]
) -> np.recarray:
    """The COST record of :meth:`CostModel.record`; ``roofline`` None takes the constants of :class:`Roofline`."""
    return (roofline or Roofline()).record(model, device, **options)


def _check_parallel(model: Model, tp: int, pp: int, expert_parallel: bool) -> None:
    if model.heads % tp:
        raise SpecError("tp", tp, f"accepted for {model.name}: a divisor of its {model.heads} attention heads")
    if not 1 <= pp <= model.layers:
        raise SpecError("pp", pp, f"accepted for {model.name}: 1 to its {model.layers} layers")
    if expert_parallel and not model.experts:
        raise SpecError("ep", True, f"accepted only for a mixture-of-experts model, which {model.name} is not")


def _fill_model(cost: np.record, model: Model, tp: int, pp: int) -> None:
    shards = tp * pp
    weight = dtype_bytes(model.weight_dtype)
    cost.token_flops = 2.0 * model.layer_params / shards
    cost.row_flops = 2.0 * model.lm_head_params / tp
    cost.pair_flops = model.attention_flops_per_pair / shards
    cost.weight_bytes = model.dense_layer_params * weight / shards
    cost.row_bytes = model.lm_head_params * weight / tp
    cost.embedding_bytes = model.hidden * weight
    kv_shards = tp if model.kv_lora_rank == 0 else 1
    cost.kv_bytes = model.kv_bytes_per_token / (min(kv_shards, model.kv_heads) * pp)
    if model.experts:
        cost.experts = model.experts
        cost.expert_bytes = model.expert_bytes * model.moe_layers / shards
        cost.log_miss = math.log1p(-model.experts_per_token / model.experts)


def _fill_device(cost: np.record, model: Model, device: Device, constants: Roofline, cap: float | None) -> None:
    limit = device.tdp_w if cap is None else cap
    if not device.idle_w < limit <= device.tdp_w:
        accepted = f"accepted for {device.name}: above its idle {device.idle_w:g} W, at most {device.tdp_w:g} W"
        raise SpecError("power_cap_w", limit, accepted)
    dynamic = device.tdp_w - device.idle_w
    memory = constants.memory_power * dynamic
    allowed = limit - device.idle_w
    clock = (allowed / dynamic) ** (1.0 / constants.power_exponent)
    bandwidth = min(1.0, allowed / memory)
    cost.flop_rate = device.flops(model.weight_dtype) * constants.flop_efficiency * clock
    cost.byte_rate = device.bandwidth * constants.byte_efficiency * bandwidth
    cost.idle_w, cost.limit_w = device.idle_w, limit
    cost.compute_w = limit
    cost.memory_w = min(limit, device.idle_w + memory)


def _fill_exchange(cost: np.record, model: Model, tp: int, pp: int, expert_parallel: bool, link: Link) -> None:
    activation = model.hidden * max(dtype_bytes(model.weight_dtype), 1.0)
    layers = model.layers / pp
    experts = model.moe_layers / pp if expert_parallel else 0.0
    if tp > 1:
        reduces = 2 * layers - experts
        share = (tp - 1) / tp
        cost.exchange_s = reduces * 2 * (tp - 1) * link.latency_s + experts * 2 * (tp - 1) * link.latency_s
        cost.exchange_token_s = reduces * 2 * share * activation / link.effective
        routed = experts * 2 * model.experts_per_token * activation / tp
        cost.exchange_token_s += routed * share / link.effective
    if pp > 1:
        cost.hop_s = link.latency_s
        cost.hop_token_s = activation / link.effective


def step_seconds(
    model: Model,
    device: Device,
    *,
    tp: int = 1,
    pp: int = 1,
    prompts: Sequence[tuple[int, int]] = (),
    decode_contexts: Sequence[int] = (),
    roofline: CostModel | None = None,
) -> float:
    """Seconds of one step: ``prompts`` are (start, tokens) chunks that all end their prompt, decodes by context."""
    record = cost_record(model, device, tp=tp, pp=pp, roofline=roofline)
    load = Load(
        len(decode_contexts),
        sum(decode_contexts),
        sum(tokens for _, tokens in prompts),
        sum(chunk_pairs(start, tokens) for start, tokens in prompts),
        sum(start for start, _ in prompts),
        len(decode_contexts) + len(prompts),
        max(decode_contexts, default=0),
    )
    return float(_step_seconds(record[0], load, full_speed()))
