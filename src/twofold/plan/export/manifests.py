"""YAML: documents, and what pods of every kind share."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from twofold.errors import SpecError
from twofold.plan.export.base import Order
from twofold.plan.export.checks import refuse
from twofold.spec.group import Group

PRODUCT = "nvidia.com/gpu.product"
PRODUCTS = {
    "A100-40GB": "NVIDIA-A100-SXM4-40GB",
    "A100-80GB": "NVIDIA-A100-SXM4-80GB",
    "A800": "NVIDIA-A800-SXM4-80GB",
    "A40": "NVIDIA-A40",
    "A10G": "NVIDIA-A10G",
    "L4": "NVIDIA-L4",
    "L40S": "NVIDIA-L40S",
    "RTX-4090": "NVIDIA-GeForce-RTX-4090",
    "RTX-PRO-6000": "NVIDIA-RTX-PRO-6000-Blackwell-Workstation-Edition",
    "H100": "NVIDIA-H100-80GB-HBM3",
    "H800": "NVIDIA-H800",
    "H20": "NVIDIA-H20",
    "H200": "NVIDIA-H200",
    "B200": "NVIDIA-B200",
    "GB200": "NVIDIA-GB200",
}
"""The label that GPU feature discovery gives a node: the product name of the driver, with hyphens."""
LONGEST_NAME = 40
TOKEN_SECRET = "hf-token-secret"
POD_IP = {"valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


class _Plain(yaml.SafeDumper):
    """Writes what occurs twice twice: anchors are hard to read."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def document(*contents: Mapping[str, Any]) -> str:
    """YAML documents, in the order of their fields."""
    return "---\n".join(yaml.dump(content, Dumper=_Plain, sort_keys=False, width=120) for content in contents)


def dns_name(order: Order) -> str:
    """The model's name as a DNS label, short enough for endings."""
    name = re.sub(r"[^a-z0-9]+", "-", order.model.name.lower()).strip("-")[:LONGEST_NAME].strip("-")
    if not name or not name[0].isalpha():
        raise SpecError("model", order.model.name, "its name starts a DNS label here: letters, digits and hyphens")
    return name


def node_selector(order: Order, group: Group) -> dict[str, str]:
    """The nodes with the device of a group; empty where its label is not known and all groups share the device."""
    device = order.device(group).name
    if device in PRODUCTS:
        return {PRODUCT: PRODUCTS[device]}
    if len({order.device(other).name for other in order.groups}) > 1:
        refuse("device", device, f"its {PRODUCT} label is not known, so pods cannot be kept to their devices")
    return {}


def node_notes(order: Order) -> list[str]:
    """Says that pods may run on any device, where that is so."""
    unknown = [order.device(group).name for group in order.groups if not node_selector(order, group)]
    return [f"no node label is known for {unknown[0]}: pods run on any device"] if unknown else []


def token_environment() -> list[dict[str, Any]]:
    """The Hugging Face token of a secret, if there is one."""
    reference = {"name": TOKEN_SECRET, "key": "HF_TOKEN", "optional": True}
    return [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": reference}}]


def nixl_environment(port: int) -> list[dict[str, Any]]:
    """Where the other side finds this pod for the handshake of a transfer."""
    return [
        {"name": "VLLM_NIXL_SIDE_CHANNEL_HOST", **POD_IP},
        {"name": "VLLM_NIXL_SIDE_CHANNEL_PORT", "value": str(port)},
    ]


def shared_memory(mounts: Sequence[str] = ("/dev/shm",)) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(volume mounts, volumes) for the shared memory that tensor parallelism needs."""
    volume = {"name": "shm", "emptyDir": {"medium": "Memory"}}
    return [{"name": "shm", "mountPath": mount} for mount in mounts], [volume]
