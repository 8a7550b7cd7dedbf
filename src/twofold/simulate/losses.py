"""Requests that have broken a limit, counted while a run goes on, so that it can stop once its verdict is certain.

A rule holds limits and how many requests may break one of them. When more have, no later event can change that the
rule is broken, and the event loop stops.
"""

import math

from twofold.compiled import compiled
from twofold.simulate.state import Simulation


@compiled
def _broken(sim: Simulation, i: int, k: int) -> None:
    """Request ``i`` breaks rule ``k``; a request counts once a rule."""
    life, rule = sim.life[i], sim.rules[k]
    if not (life.broken >> k) & 1:
        life.broken |= 1 << k
        rule.broken += 1
        if rule.broken > rule.allowed:
            sim.control[0].hopeless = 1


@compiled
def judge_first_token(sim: Simulation, i: int) -> None:
    """Request ``i`` has its first token: was it in time?"""
    for k in range(len(sim.rules)):
        if sim.life[i].first_token - sim.arrivals[i] > sim.rules[k].ttft_s:
            _broken(sim, i, k)


@compiled
def judge_finished(sim: Simulation, i: int) -> None:
    """Request ``i`` has its last token: was it in time, and were the gaps short enough?"""
    if len(sim.rules) == 0:
        return
    life = sim.life[i]
    gaps = max(sim.scheduler.requests[i].output - 1, 1)
    tpot, e2e = (life.finish - life.first_token) / gaps, life.finish - sim.arrivals[i]
    for k in range(len(sim.rules)):
        rule = sim.rules[k]
        if tpot > rule.tpot_s or life.max_gap > rule.tbt_s or e2e > rule.e2e_s or life.slot_s > rule.slot_s:
            _broken(sim, i, k)


@compiled
def judge_rejected(sim: Simulation, i: int) -> None:
    """Request ``i`` is refused: it breaks every rule but one on the wait for a decode slot, which it never had."""
    for k in range(len(sim.rules)):
        if math.isinf(sim.rules[k].slot_s):
            _broken(sim, i, k)
