"""The options of one vLLM server, which vLLM alone, Kubernetes, llm-d and Dynamo are all given.

Checked against ``vllm/engine/arg_utils.py`` and ``vllm/config/scheduler.py`` of vLLM. Its one scheduler spends the
budget of a step on decodes first, then on prompts, which it cuts unless chunked prefill is off.
"""

import json

from twofold.plan.export.base import Flags, Order
from twofold.plan.export.checks import check_engine, refuse
from twofold.spec.group import Group

KV_ROLES = {"prefill": "kv_producer", "decode": "kv_consumer"}
KV_DTYPES = {"bf16": None, "fp16": None, "fp32": None, "fp8": "fp8"}
POLICY = {
    "prefill-first": "vLLM spends a step on decodes first",
    "multiplexed": "vLLM does not divide a device",
}


def check_vllm(order: Order, target: str) -> None:
    """SpecError, in one line, for what vLLM cannot do."""
    check_engine(order, target)
    if order.disaggregated and order.deployment.transfer != "pull":
        refuse("transfer", order.deployment.transfer, "the NixlConnector of vLLM pulls")
    for group in order.groups:
        if group.role == "both" and group.policy in POLICY:
            refuse("policy", group.policy, POLICY[group.policy])
        if group.order == "short-first":
            refuse("order", group.order, "vLLM serves fcfs or by priority")
        if order.disaggregated and group.pp > 1:
            refuse("pp", group.pp, "the NixlConnector of vLLM needs pp1")
        if _whole_prompts(group) and group.max_prefill_tokens < order.model.max_context:
            refuse("max_prefill_tokens", group.max_prefill_tokens, _whole(order))
    if order.model.kv_dtype not in KV_DTYPES:
        refuse("kv_dtype", order.model.kv_dtype, "vLLM keeps KV in the dtype of the model or in fp8")


def _whole_prompts(group: Group) -> bool:
    return group.role == "both" and group.policy == "mixed"


def _whole(order: Order) -> str:
    return f"vLLM leaves prompts whole only where a step holds the longest, {order.model.max_context} tokens"


def step_tokens(group: Group) -> int:
    """Tokens that a step may hold; vLLM refuses fewer than the sequences of a batch."""
    if group.role == "decode":
        return max(group.max_prefill_tokens, group.max_batch)
    return group.budget_tokens or group.prefill_batch_tokens or group.max_prefill_tokens


def server_flags(order: Order, group: Group, sizes: bool = True) -> Flags:
    """Options of a server of ``group``; ``sizes`` False leaves the tensor-parallel degree to a chart."""
    tokens = step_tokens(group)
    flags: Flags = _sizes(group) if sizes else []
    flags += [
        ("--max-num-batched-tokens", str(tokens)),
        ("--max-num-seqs", str(min(group.max_batch, tokens))),
        ("--gpu-memory-utilization", f"{group.memory_fraction:g}"),
        ("--enable-prefix-caching" if order.prefix_cache(group) else "--no-enable-prefix-caching",),
    ]
    if not order.model.kv_lora_rank:
        flags.append(("--block-size", str(group.block_tokens)))
    if _whole_prompts(group):
        flags.append(("--no-enable-chunked-prefill",))
    if group.order == "priority":
        flags.append(("--scheduling-policy", "priority"))
    if group.expert_parallel:
        flags.append(("--enable-expert-parallel",))
    if group.async_scheduling:
        flags.append(("--async-scheduling",))
    if order.graph_tokens:
        flags.append(("--max-cudagraph-capture-size", str(order.graph_tokens)))
    if dtype := KV_DTYPES[order.model.kv_dtype]:
        flags.append(("--kv-cache-dtype", dtype))
    return flags + _transfer(group)


def _sizes(group: Group) -> Flags:
    flags: Flags = [("--tensor-parallel-size", str(group.tp))]
    return flags if group.pp == 1 else [*flags, ("--pipeline-parallel-size", str(group.pp))]


def _transfer(group: Group) -> Flags:
    if group.role not in KV_ROLES:
        return []
    config = {"kv_connector": "NixlConnector", "kv_role": KV_ROLES[group.role]}
    return [("--kv-transfer-config", json.dumps(config, separators=(",", ":")))]


def notes(order: Order) -> list[str]:
    """Where vLLM does otherwise than what was simulated, one line each."""
    found = []
    for group in order.groups:
        if group.role == "prefill" and group.policy != "chunked":
            found.append(f"a prefill step holds {step_tokens(group)} tokens, and vLLM may cut its last prompt")
        if group.max_batch > step_tokens(group):
            found.append(f"at most {step_tokens(group)} sequences, the tokens of a step, and not {group.max_batch}")
        if group.order == "priority":
            found.append("waiting requests do not age")
    if order.model.kv_lora_rank:
        found.append("the attention backend chooses the block size of a model with latent attention")
    return list(dict.fromkeys(found))
