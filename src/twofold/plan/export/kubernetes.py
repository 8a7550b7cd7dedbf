"""Plain Kubernetes: a StatefulSet of vLLM servers for each group, and vllm-router in front of several replicas.

A StatefulSet and not a Deployment: the router is told the address of every replica, and only a StatefulSet gives
its pods addresses that last. This needs no permission to list pods.
"""

from typing import Any

from twofold.plan.export.base import Exported, File, Flags, Order, Target, flat, header
from twofold.plan.export.checks import refuse_power_caps
from twofold.plan.export.hub import hub_id
from twofold.plan.export.manifests import (
    dns_name,
    document,
    nixl_environment,
    node_notes,
    node_selector,
    shared_memory,
    token_environment,
)
from twofold.plan.export.placement import SIDE_PORT
from twofold.plan.export.routers import STARTUP_S, router_notes, router_policy
from twofold.plan.export.vllm_flags import check_vllm, notes, server_flags
from twofold.spec.group import Group

WRITTEN_FOR = "Kubernetes 1.26 or newer, vLLM 0.31 and vllm-router 0.1.17"
SERVER_IMAGE, ROUTER_IMAGE = "vllm/vllm-openai:v0.31.0", "vllm/vllm-router:v0.1.17"
PORT = 8000
NIXL_NOTE = "prefill and decode pods need the nixl package in the image"
Manifest = dict[str, Any]


def write(order: Order) -> Exported:
    """``deployment.yaml``; SpecError for what vLLM cannot do, power caps and weights that pods cannot fetch."""
    check_vllm(order, "kubernetes")
    refuse_power_caps(order, "kubernetes")
    hub_id(order.model_path, "kubernetes")
    differences = [*notes(order), *router_notes(order), *node_notes(order)]
    head = header(order, WRITTEN_FOR, differences + [NIXL_NOTE] * order.disaggregated)
    manifests = [manifest for place, group in enumerate(order.groups) for manifest in _replicas(order, place, group)]
    front = _router(order) if order.replicas > 1 else [_service(dns_name(order), {"app": dns_name(order)})]
    text = head + document(*manifests, *front)
    name = dns_name(order)
    steps = ("kubectl apply -f deployment.yaml", f"kubectl port-forward service/{name} {PORT}:{PORT}")
    return Exported((File("deployment.yaml", text),), steps)


def _set_name(order: Order, place: int, group: Group) -> str:
    role = "server" if group.role == "both" else group.role
    return f"{dns_name(order)}-{role}-{place + 1}"


def _replicas(order: Order, place: int, group: Group) -> list[Manifest]:
    name = _set_name(order, place, group)
    labels = {"app": dns_name(order), "role": group.role, "group": name}
    headless: Manifest = {"clusterIP": "None", "publishNotReadyAddresses": True}
    service = _service(name, {"group": name}, headless)
    stateful = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "serviceName": name,
            "replicas": group.count,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"group": name}},
            "template": {"metadata": {"labels": labels}, "spec": _pod(order, group)},
        },
    }
    return [service, stateful]


def _pod(order: Order, group: Group) -> Manifest:
    mounts, volumes = shared_memory()
    transfers = group.role != "both"
    listen: Flags = [("--host", "0.0.0.0"), ("--port", str(PORT))]
    container = {
        "name": "vllm",
        "image": SERVER_IMAGE,
        "command": ["vllm", "serve"],
        "args": [order.model_path, *flat(listen + server_flags(order, group))],
        "env": token_environment() + (nixl_environment(SIDE_PORT) if transfers else []),
        "ports": [{"name": "http", "containerPort": PORT}]
        + ([{"name": "nixl", "containerPort": SIDE_PORT}] if transfers else []),
        "resources": {"limits": {"nvidia.com/gpu": group.tp * group.pp}},
        "startupProbe": _probe(10, STARTUP_S // 10),
        "readinessProbe": _probe(5, 3),
        "volumeMounts": mounts,
    }
    pod: Manifest = {"containers": [container], "volumes": volumes}
    selector = node_selector(order, group)
    return {"nodeSelector": selector, **pod} if selector else pod


def _probe(period_s: int, failures: int) -> Manifest:
    request = {"path": "/health", "port": "http"}
    return {"httpGet": request, "periodSeconds": period_s, "failureThreshold": failures}


def _service(name: str, selector: dict[str, str], more: Manifest | None = None) -> Manifest:
    ports = [{"name": "http", "port": PORT, "targetPort": PORT}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {**(more or {}), "selector": selector, "ports": ports},
    }


def router_flags(order: Order) -> Flags:
    """Options of the router, with the address of every pod."""
    flags: Flags = [("--host", "0.0.0.0"), ("--port", str(PORT)), ("--policy", router_policy(order))]
    flags.append(("--worker-startup-timeout-secs", str(STARTUP_S)))
    addresses = [
        (group.role, f"http://{name}-{ordinal}.{name}:{PORT}")
        for place, group in enumerate(order.groups)
        for name in [_set_name(order, place, group)]
        for ordinal in range(group.count)
    ]
    if not order.disaggregated:
        return [*flags, ("--worker-urls", *(address for _, address in addresses))]
    return [*flags, ("--vllm-pd-disaggregation",), *((f"--{role}", address) for role, address in addresses)]


def _router(order: Order) -> list[Manifest]:
    name = dns_name(order)
    labels = {"app": f"{name}-router"}
    container = {
        "name": "router",
        "image": ROUTER_IMAGE,
        "command": ["vllm-router"],
        "args": flat(router_flags(order)),
        "ports": [{"name": "http", "containerPort": PORT}],
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"{name}-router", "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    return [deployment, _service(name, labels)]


TARGET = Target("kubernetes", WRITTEN_FOR, write)
