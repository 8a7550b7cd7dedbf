"""The options of one SGLang server; checked against the argument groups of SGLang 0.5.23.

SGLang runs prompts before decodes. ``--enable-mixed-chunk`` lets the decodes ride beside a chunk and count towards
it, which is as near as it comes to a stall-free step. PD multiplexing asserts one pipeline stage, whole prompts and
no overlap schedule (``arg_groups/validation_hook.py``), and knows compute capabilities 6 to 9.
"""

from typing import Any

from twofold.plan.export.base import Flags, Order
from twofold.plan.export.checks import check_engine, refuse
from twofold.spec.group import Group

WHOLE = "-1"
FULL_DEVICE_GROUPS = 2
KV_DTYPES = {"bf16": None, "fp16": None, "fp32": None, "fp8": "fp8_e4m3"}
ORDERS: dict[str, Flags] = {
    "fcfs": [("--schedule-policy", "fcfs")],
    "priority": [
        ("--schedule-policy", "fcfs"),
        ("--enable-priority-scheduling",),
        ("--schedule-low-priority-values-first",),
    ],
    "short-first": [("--schedule-policy", "shortest-prefill-first")],
}


def check_sglang(order: Order) -> None:
    """SpecError, in one line, for what SGLang cannot do."""
    check_engine(order, "sglang")
    for group in order.groups:
        chunk = _chunk(group)
        if chunk is not None and not order.model.kv_lora_rank and chunk % group.block_tokens:
            refuse("budget", chunk, f"SGLang cuts prompts at multiples of a page, {group.block_tokens} tokens")
        if group.policy == "multiplexed":
            _check_multiplexed(order, group)
    if order.model.kv_dtype not in KV_DTYPES:
        refuse("kv_dtype", order.model.kv_dtype, "SGLang is given KV in the dtype of the model or in fp8")


def _check_multiplexed(order: Order, group: Group) -> None:
    if group.split == "slo":
        refuse("split", group.split, "SGLang chooses a division by the decode batch, not by a limit")
    if group.pp > 1:
        refuse("pp", group.pp, "PD multiplexing in SGLang needs pp1")
    capability = order.device(group).compute_capability or ""
    if not 6 <= float(capability) < 10:
        refuse("device", order.device(group).name, f"SGLang divides devices of capability 6 to 9, not {capability}")
    rows = group.manual_divisions
    if rows and rows[0][2] > 1:
        refuse("manual_divisions", rows[0], "the first division in SGLang has a threshold of 0 or 1")


def pdmux_config(group: Group) -> dict[str, Any] | None:
    """The PD multiplexing file of a group, with the fields of ``PDMuxConfig``; None where it does not multiplex."""
    if group.policy != "multiplexed":
        return None
    fixed = group.fixed_split
    rows = [list(row) for row in group.manual_divisions] if fixed is None else [[*fixed, 1]]
    return {
        "sm_group_num": len(rows) + FULL_DEVICE_GROUPS if rows else group.sm_group_num,
        "manual_divisions": rows,
        "split_forward_token_budget": group.split_forward_token_budget,
        "decode_bs_divisor": group.decode_bs_divisor,
    }


def server_flags(order: Order, group: Group, pdmux_path: str) -> Flags:
    """Options of a server of ``group``, but for its addresses."""
    flags: Flags = [("--tp-size", str(group.tp))]
    if group.pp > 1:
        flags.append(("--pp-size", str(group.pp)))
    if group.expert_parallel:
        flags.append(("--ep-size", str(group.tp)))
    flags += [
        ("--max-running-requests", str(group.max_batch)),
        ("--mem-fraction-static", f"{group.memory_fraction:g}"),
        *ORDERS[group.order],
        *_memory(order, group),
        *_step(group, pdmux_path),
    ]
    return flags


def _memory(order: Order, group: Group) -> Flags:
    flags: Flags = []
    if not order.model.kv_lora_rank:
        flags.append(("--page-size", str(group.block_tokens)))
    if group.role == "decode" and order.prefix_cache(group):
        flags.append(("--disaggregation-decode-enable-radix-cache",))
    elif not order.prefix_cache(group):
        flags.append(("--disable-radix-cache",))
    if dtype := KV_DTYPES[order.model.kv_dtype]:
        flags.append(("--kv-cache-dtype", dtype))
    return flags


def _chunk(group: Group) -> int | None:
    """Tokens at which a prompt is cut; None where it stays whole, or is run elsewhere."""
    if group.policy == "chunked":
        return group.budget_tokens
    return group.max_prefill_tokens if group.role == "both" and group.policy == "mixed" else None


def _step(group: Group, pdmux_path: str) -> Flags:
    if group.role == "decode":
        return []
    chunk = _chunk(group)
    if chunk is not None:
        beside: Flags = [("--enable-mixed-chunk",)] if group.role == "both" else []
        return [("--chunked-prefill-size", str(chunk)), *beside]
    tokens = group.prefill_batch_tokens or group.max_prefill_tokens
    whole: Flags = [("--chunked-prefill-size", WHOLE), ("--max-prefill-tokens", str(tokens))]
    config = pdmux_config(group)
    if config is None:
        return whole
    divided: Flags = [("--enable-pdmux",), ("--pdmux-config-path", pdmux_path)]
    return [*whole, *divided, ("--sm-group-num", str(config["sm_group_num"])), ("--disable-overlap-schedule",)]


def notes(order: Order) -> list[str]:
    """Where SGLang does otherwise than what was simulated, one line each."""
    found = ["the memory fraction is that of weights and KV; lower it if there is no room left for activations"]
    for group in order.groups:
        if group.role != "decode" and _chunk(group) is None:
            found.append("a prefill batch may hold as many tokens as the context of the model")
        if group.role == "both" and group.policy == "chunked":
            found.append("prompts are served before decodes, beside which they run (--enable-mixed-chunk)")
        if group.role == "both" and group.policy == "mixed":
            found.append(f"prompts are cut at {_chunk(group)} tokens a step (--enable-mixed-chunk)")
        if group.order != "fcfs":
            found.append("waiting requests do not age")
    if order.disaggregated and order.deployment.transfer == "pull":
        found.append("prefill replicas send KV; decode replicas do not fetch it")
    if order.model.kv_lora_rank:
        found.append("the attention backend chooses the page size of a model with latent attention")
    return list(dict.fromkeys(found))
