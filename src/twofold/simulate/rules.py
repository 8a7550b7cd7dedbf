"""Rules of a run: limits on single requests, and how many requests may break one of them."""

import math

import numpy as np

from twofold.scheduler.state import records
from twofold.spec.slo import Slo

RULE = np.dtype(
    [
        ("ttft_s", "f8"),
        ("tpot_s", "f8"),
        ("tbt_s", "f8"),
        ("e2e_s", "f8"),
        ("slot_s", "f8"),
        ("allowed", "i8"),
        ("broken", "i8"),
    ],
    align=True,
)
"""Limits of a request (infinite: none; ``slot_s`` on the wait for a decode slot), how many requests may break one of
them, and how many have. More than allowed ends the run."""

LIMITS = ("ttft_s", "tpot_s", "tbt_s", "e2e_s", "slot_s")


def rules_of(slo: Slo, requests: int, sustainable_s: float) -> np.recarray:
    """The rules that a run of so many ``requests`` certainly breaks only when it fails ``slo`` or is not sustained.

    One for the limits on every request, one for each percentile of ttft, tpot and e2e, and two that at least half of
    the requests get their first token, and their decode slot, within ``sustainable_s`` seconds.
    """
    found = []
    if slo.limits:
        found.append(_rule(most_lost(requests, slo.attainment), **slo.limits))
    for limit in slo.percentiles:
        if limit.metric != "tbt":
            beyond = requests - math.floor(requests * limit.percentile / 100.0)
            found.append(_rule(beyond, **{limit.metric: limit.limit_s}))
    found += [_rule(requests // 2, ttft=sustainable_s), _rule(requests // 2, slot=sustainable_s)]
    return np.concatenate(found).view(np.recarray)


def most_lost(requests: int, attainment: float) -> int:
    """Requests of so many that may miss the limits while the share of the others is still ``attainment``."""
    lost = min(requests, int((1.0 - attainment) * requests) + 1)
    while lost and (requests - lost) / requests < attainment:
        lost -= 1
    return lost


def _rule(allowed: int, **limits: float) -> np.recarray:
    rule = records(RULE, 1)
    for name in LIMITS:
        rule[name] = limits.get(name.removesuffix("_s"), math.inf)
    rule.allowed = allowed
    return rule
