"""llm-d: the values of its modelservice chart, with a decode and a prefill pool; routing stays the chart's.

Colocated replicas are the decode pool by itself, without the sidecar that fetches from prefill pods.
"""

import math
import re
from typing import Any

from twofold.plan.export.base import Exported, File, Order, Target, flat, header
from twofold.plan.export.checks import refuse, refuse_pools, refuse_power_caps
from twofold.plan.export.hub import HUB_ID
from twofold.plan.export.manifests import (
    TOKEN_SECRET,
    dns_name,
    document,
    nixl_environment,
    node_notes,
    node_selector,
    shared_memory,
)
from twofold.plan.export.placement import SIDE_PORT
from twofold.plan.export.vllm_flags import check_vllm, notes, server_flags
from twofold.spec.group import Group

WRITTEN_FOR = "llm-d 0.6 and version 0.4.9 of its modelservice chart"
IMAGE = "ghcr.io/llm-d/llm-d-cuda:v0.6.0"
CHART = "https://llm-d-incubation.github.io/llm-d-modelservice/"
SERVICE_PORT, TARGET_PORT = 8000, 8200
VOLUME = re.compile(r"pvc(\+hf)?://[^\s/]+/\S+")
SPARE, GIB = 1.25, 2**30
ROUTER_NOTE = "the inference scheduler of llm-d routes, by scores of its own"


def write(order: Order) -> Exported:
    """``values.yaml``; SpecError for what vLLM cannot do, pipelines, power caps and two pools of one role."""
    check_vllm(order, "llm-d")
    refuse_power_caps(order, "llm-d")
    refuse_pools(order, "llm-d")
    for group in order.groups:
        if group.pp > 1:
            refuse("pp", group.pp, "the chart of llm-d counts tensor-parallel devices only")
    routed = [ROUTER_NOTE] if order.replicas > 1 else []
    head = header(order, WRITTEN_FOR, [*notes(order), *routed, *node_notes(order)])
    text = head + document(_values(order))
    install = f"helm install {dns_name(order)} llm-d-modelservice/llm-d-modelservice --version v0.4.9 -f values.yaml"
    steps = (f"helm repo add llm-d-modelservice {CHART}", install)
    return Exported((File("values.yaml", text),), steps)


def _values(order: Order) -> dict[str, Any]:
    pools = {group.role: group for group in order.groups}
    decode = pools.get("decode") or pools["both"]
    absent = {"create": False, "replicas": 0}
    proxy: dict[str, Any] = {"enabled": order.disaggregated}
    if order.disaggregated:
        proxy |= {"connector": "nixlv2", "targetPort": TARGET_PORT, "secure": False}
    return {
        "multinode": False,
        "modelArtifacts": {
            "name": _served_name(order),
            "uri": _uri(order),
            "size": f"{math.ceil(SPARE * order.model.weight_bytes / GIB)}Gi",
            "authSecretName": TOKEN_SECRET,
            "labels": {"llm-d.ai/inferenceServing": "true", "llm-d.ai/model": dns_name(order)},
        },
        "routing": {"servicePort": SERVICE_PORT, "proxy": proxy},
        "decode": _pool(order, decode, TARGET_PORT if order.disaggregated else SERVICE_PORT),
        "prefill": _pool(order, pools["prefill"], SERVICE_PORT) if order.disaggregated else absent,
    }


def _uri(order: Order) -> str:
    path = order.model_path
    if VOLUME.fullmatch(path):
        return path
    if HUB_ID.fullmatch(path) is None:
        refuse("--model-path", path, "the chart of llm-d takes a hub id, or pvc://CLAIM/PATH")
    return f"hf://{path}"


def _served_name(order: Order) -> str:
    return order.model_path if HUB_ID.fullmatch(order.model_path) else order.model.name


def _pool(order: Order, group: Group, port: int) -> dict[str, Any]:
    mounts, volumes = shared_memory()
    transfers = group.role != "both"
    container: dict[str, Any] = {
        "name": "vllm",
        "image": IMAGE,
        "modelCommand": "vllmServe",
        "args": flat(server_flags(order, group, sizes=False)),
        "env": nixl_environment(SIDE_PORT) if transfers else [],
        "ports": [{"name": "vllm", "containerPort": port, "protocol": "TCP"}]
        + ([{"name": "nixl", "containerPort": SIDE_PORT, "protocol": "TCP"}] if transfers else []),
        "mountModelVolume": True,
        "volumeMounts": mounts,
    }
    selector = node_selector(order, group)
    return {
        "create": True,
        "replicas": group.count,
        "parallelism": {"tensor": group.tp},
        **({"nodeSelector": selector} if selector else {}),
        "containers": [container],
        "volumes": volumes,
    }


TARGET = Target("llm-d", WRITTEN_FOR, write)
