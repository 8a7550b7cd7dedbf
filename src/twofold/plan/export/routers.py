"""The routing policy of vllm-router and of the SGLang router (a fork of one another) for each router of ours."""

from twofold.plan.export.base import Order

POLICIES = {
    "round-robin": "round_robin",
    "random": "random",
    "power-of-two": "power_of_two",
    "least-requests": "power_of_two",
    "least-tokens": "power_of_two",
    "kv-aware": "cache_aware",
}
NEAREST = ("least-requests", "least-tokens", "kv-aware")
STARTUP_S = 1800
"""Seconds that a router waits for its workers, which must load their weights first."""


def router_policy(order: Order) -> str:
    """The value of ``--policy``."""
    return POLICIES[order.deployment.router]


def router_notes(order: Order) -> list[str]:
    """What the router does otherwise than what was simulated."""
    ours, found = order.deployment.router, []
    if order.replicas > 1 and ours in NEAREST:
        found.append(f"the router has no {ours}: {POLICIES[ours]} is the nearest")
    if order.disaggregated and order.deployment.decode_choice != "at-arrival":
        found.append("the router chooses the decode replica when a request arrives")
    return found
