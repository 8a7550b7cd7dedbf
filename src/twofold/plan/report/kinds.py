"""Kinds of deployments: the way in which prefill and decode share devices, and how each kind is drawn."""

from typing import NamedTuple

from twofold.spec.deployment import Deployment

OTHER = "other"


class Look(NamedTuple):
    """The line of a kind: its colour on light and on dark paper, its dashes (empty: solid) and its point.

    All differ in lightness as well as hue, and by the point, so that no reader needs the colour alone.
    """

    light: str
    dark: str
    dash: tuple[int, ...]
    point: str


LOOKS = {
    "prefill-first": Look("#c2410c", "#ff9466", (6, 3), "triangle-down"),
    "mixed": Look("#9b3f8c", "#dd93cf", (2, 2), "diamond"),
    "chunked": Look("#0b62a4", "#66b5f2", (), "circle"),
    "multiplexed": Look("#00795f", "#3fcaa3", (9, 3), "square"),
    "disaggregated": Look("#20203f", "#e2e2f6", (10, 3, 2, 3), "triangle-up"),
    "hybrid": Look("#7a5900", "#d8b54a", (6, 2, 2, 2, 2, 2), "triangle-right"),
    "request-level": Look("#736b60", "#b8aea0", (1, 3), "cross"),
    OTHER: Look("#6b6b6b", "#b0b0b0", (4, 4), "cross"),
}
"""Every kind, in the order in which legends name them."""


def kind_of(deployment: Deployment) -> str:
    """``disaggregated``, ``hybrid`` (replicas that do both beside it), the one policy of all, or ``other``."""
    roles = {group.role for group in deployment.groups}
    if "decode" in roles:
        return "hybrid" if "both" in roles else "disaggregated"
    policies = {group.policy for group in deployment.groups}
    policy = policies.pop()
    return OTHER if policies or policy not in LOOKS else policy
