"""What no engine of ours can be told: refused in one line, so that nothing of a plan is silently left out."""

from typing import NoReturn

from twofold.errors import SpecError
from twofold.plan.export.base import Order
from twofold.spec.group import POLICIES, Group

OTHERS = "take another --rank or another target, or plan with --for and the target"


def refuse(field: str, value: object, why: str) -> NoReturn:
    """Raise SpecError: why the target cannot do it, and what else there is."""
    raise SpecError(field, value, f"{why}; {OTHERS}")


def check_engine(order: Order, target: str) -> None:
    """SpecError for the first field of an order that neither vLLM nor SGLang has an option for."""
    deployment = order.deployment
    if deployment.mixed_pool:
        refuse("mixed_pool", True, f"{target} does not lend replicas between pools")
    if deployment.layerwise:
        refuse("layerwise", True, f"{target} sends KV after the prefill, not layer by layer")
    for group in order.groups:
        _check_group(group, target)
        _check_device(order, group, target)


def _check_group(group: Group, target: str) -> None:
    if group.policy not in POLICIES:
        refuse("policy", group.policy, f"{target} cannot run a policy of your own")
    if group.policy == "request-level":
        refuse("policy", group.policy, f"{target} batches continuously")
    if group.budget_s is not None:
        refuse("budget", group.budget_s, f"{target} takes a budget in tokens, such as chunked=512, not in time")
    for field in ("host_kv_bytes", "disk_kv_bytes"):
        if value := getattr(group, field):
            refuse(field, value, f"KV tiers are not exported to {target}")
    for field in ("kv_tokens", "reserved_bytes"):
        if value := getattr(group, field):
            refuse(field, value, f"{target} finds out by itself how many tokens fit")
    for field in ("prefill_every", "decode_every"):
        if (value := getattr(group, field)) is not None:
            refuse(field, value, f"{target} promises no turn")
    if group.admission != "grow":
        refuse("admission", group.admission, f"{target} admits by the blocks of the prompt and may preempt")


def _check_device(order: Order, group: Group, target: str) -> None:
    device = order.device(group)
    if device.compute_capability in (None, "cpu"):
        refuse("device", device.name, f"{target} files are written for CUDA devices (a compute_capability)")
    if group.tp * group.pp > device.devices_per_node:
        refuse(
            "tp x pp",
            group.tp * group.pp,
            f"a replica of {target} files has the {device.devices_per_node} devices of one machine",
        )


def refuse_power_caps(order: Order, target: str) -> None:
    """SpecError where a group has a power cap and the target may not touch the devices of a node."""
    for group in order.groups:
        if group.power_cap_w is not None:
            refuse("power_cap_w", group.power_cap_w, f"{target} cannot set it; nvidia-smi -pl on the node can")


def refuse_pools(order: Order, target: str) -> None:
    """SpecError where a role has more than one group, for targets with one pool a role."""
    roles = [group.role for group in order.groups]
    for role in roles:
        if roles.count(role) > 1:
            refuse("groups", str(order.deployment), f"{target} has one pool of equal {role} replicas")
