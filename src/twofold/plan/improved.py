"""A deployment with a quarter more of one resource and all else equal: what gains from it is what binds."""

import math
from collections.abc import Callable

from twofold.errors import SpecError
from twofold.spec import catalog
from twofold.spec.deployment import Deployment
from twofold.spec.device import Device
from twofold.spec.group import Group
from twofold.spec.link import Link

MORE = 1.25
BATCH, LINK = "batch", "link"
IN_DEVICES: dict[str, Callable[[Device], Device]] = {
    "compute": lambda device: device.replaced(peak_flops={k: MORE * rate for k, rate in device.peak_flops.items()}),
    "bandwidth": lambda device: device.replaced(bandwidth=MORE * device.bandwidth),
    "memory": lambda device: device.replaced(memory=int(MORE * device.memory)),
}


def resources(deployment: Deployment) -> tuple[str, ...]:
    """What there can be more of: the devices' compute, bandwidth and memory, the largest batch, the link of KV.

    The link is left out where no KV crosses one, and where groups have different ones.
    """
    moves = any(group.role == "decode" for group in deployment.groups)
    return (*IN_DEVICES, BATCH, *([LINK] if moves and len(_links(deployment)) == 1 else []))


def with_more(deployment: Deployment, resource: str) -> Deployment:
    """The deployment with a quarter more of ``resource``; SpecError for one that is not of :func:`resources`."""
    known = resources(deployment)
    if resource not in known:
        raise SpecError("resource", resource, f"accepted for {deployment}: {', '.join(known)}")
    if resource == LINK:
        link, trunk = catalog.link(_links(deployment).pop()), deployment.fabric_bytes_per_s
        faster = link.replaced(bandwidth=MORE * link.bandwidth)
        return deployment.replaced(link=faster, fabric_bytes_per_s=trunk and MORE * trunk)
    groups = tuple(_improved(group, deployment, resource) for group in deployment.groups)
    return deployment.replaced(groups=groups)


def _improved(group: Group, deployment: Deployment, resource: str) -> Group:
    if resource == BATCH:
        return group.replaced(max_batch=math.ceil(MORE * group.max_batch))
    device = catalog.device(group.device or deployment.device or "")
    return group.replaced(device=IN_DEVICES[resource](device))


def _links(deployment: Deployment) -> set[str | Link]:
    if deployment.link is not None:
        return {deployment.link}
    return {catalog.device(group.device or deployment.device or "").inter_link for group in deployment.groups}
