"""NVIDIA Dynamo: one DynamoGraphDeployment with a frontend, which routes, and vLLM workers."""

import json
from typing import Any

from twofold.plan.export.base import Exported, File, Flags, Order, Target, flat, header
from twofold.plan.export.checks import refuse, refuse_pools, refuse_power_caps
from twofold.plan.export.hub import hub_id
from twofold.plan.export.manifests import TOKEN_SECRET, dns_name, document, node_notes, node_selector
from twofold.plan.export.vllm_flags import check_vllm, notes, server_flags
from twofold.spec.group import Group

WRITTEN_FOR = "Dynamo 1.6.1, API nvidia.com/v1alpha1, with its vLLM 0.31"
IMAGE = "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.6.1"
SERVICES = {"both": "VllmDecodeWorker", "prefill": "VllmPrefillWorker", "decode": "VllmDecodeWorker"}
MODES = {
    "round-robin": "round-robin",
    "random": "random",
    "power-of-two": "power-of-two",
    "least-requests": "least-loaded",
    "least-tokens": "least-loaded",
    "kv-aware": "kv",
}
KV_COST = {
    "overlap_credit": "DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT",
    "prefill_load_scale": "DYN_ROUTER_PREFILL_LOAD_SCALE",
    "host_weight": "DYN_ROUTER_HOST_CACHE_HIT_WEIGHT",
    "disk_weight": "DYN_ROUTER_DISK_CACHE_HIT_WEIGHT",
    "temperature": "DYN_ROUTER_TEMPERATURE",
    "decode_active_request_weight": "DYN_ROUTER_DECODE_ACTIVE_REQUEST_WEIGHT",
}
KV_EVENTS = {
    "publisher": "zmq",
    "topic": "kv-events",
    "endpoint": "tcp://*:20080",
    "enable_kv_cache_events": True,
}


def write(order: Order) -> Exported:
    """``dynamo.yaml``; SpecError for what vLLM cannot do, power caps and two pools of one role."""
    check_vllm(order, "dynamo")
    refuse_power_caps(order, "dynamo")
    refuse_pools(order, "dynamo")
    hub_id(order.model_path, "dynamo")
    for group in order.groups:
        if kv_aware(order) and group.role != "decode" and not order.prefix_cache(group):
            refuse("router", order.deployment.router, "Dynamo routes by KV only where prefixes are reused")
    services = {"Frontend": _frontend(order)} | {SERVICES[group.role]: _worker(order, group) for group in order.groups}
    manifest = {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": dns_name(order)},
        "spec": {"services": services},
    }
    text = header(order, WRITTEN_FOR, [*notes(order), *_router_notes(order), *node_notes(order)]) + document(manifest)
    secret = f"kubectl create secret generic {TOKEN_SECRET} --from-literal=HF_TOKEN=..."
    return Exported((File("dynamo.yaml", text),), (secret, "kubectl apply -f dynamo.yaml"))


def kv_aware(order: Order) -> bool:
    """Whether requests go where their prefix is."""
    return order.deployment.router == "kv-aware"


def _router_notes(order: Order) -> list[str]:
    found = []
    if order.replicas > 1 and order.deployment.router == "least-tokens":
        found.append("the frontend has no least-tokens: least-loaded counts requests")
    if order.disaggregated and order.deployment.decode_choice == "at-arrival":
        found.append("the frontend chooses the decode replica when the prefill has ended")
    return found


def _frontend(order: Order) -> dict[str, Any]:
    environment = {"DYN_ROUTER_MODE": MODES[order.deployment.router]}
    if kv_aware(order):
        environment |= {name: f"{getattr(order.deployment, field):g}" for field, name in KV_COST.items()}
    return {
        "componentType": "frontend",
        "replicas": 1,
        "envs": [{"name": name, "value": value} for name, value in environment.items()],
        "extraPodSpec": {"mainContainer": {"image": IMAGE}},
    }


def _worker(order: Order, group: Group) -> dict[str, Any]:
    flags: Flags = [("--model", order.model_path)]
    kind: dict[str, Any] = {"componentType": "worker"}
    if group.role != "both":
        kind["subComponentType"] = group.role
        flags.append(("--disaggregation-mode", group.role))
    flags += server_flags(order, group)
    if kv_aware(order) and group.role != "decode":
        flags.append(("--kv-events-config", json.dumps(KV_EVENTS, separators=(",", ":"))))
    container = {"image": IMAGE, "command": ["python3", "-m", "dynamo.vllm"], "args": flat(flags)}
    selector = node_selector(order, group)
    return {
        **kind,
        "replicas": group.count,
        "envFromSecret": TOKEN_SECRET,
        "resources": {"limits": {"gpu": str(group.tp * group.pp)}},
        "extraPodSpec": ({"nodeSelector": selector} if selector else {}) | {"mainContainer": container},
    }


TARGET = Target("dynamo", WRITTEN_FOR, write)
