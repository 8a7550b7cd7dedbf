"""Which replica gets a request: the router's own account of what it has sent, and six ways to choose.

The account is local: it changes at dispatch, at the first token and at the end of a request, so that two requests in a
row do not herd to the same replica (Dynamo's router does the same).
"""

import math

import numpy as np

from twofold.compiled import compiled
from twofold.scheduler.memory import blocks_for, reusable
from twofold.scheduler.state import NONE, Scheduler

ROUTE = np.dtype(
    [("requests", "i8"), ("prefill_tokens", "i8"), ("tokens", "i8"), ("blocks", "i8"), ("cost", "f8")], align=True
)
"""One record a replica: requests sent and not ended, prompt tokens of them not yet prefilled, their prompt tokens in
all, the blocks of those; ``cost`` is scratch of the KV-aware choice."""

ROUTER = np.dtype(
    [
        ("method", "i8"),
        ("turn", "i8"),
        ("turn_decode", "i8"),
        ("overlap_credit", "f8"),
        ("prefill_load_scale", "f8"),
        ("host_weight", "f8"),
        ("disk_weight", "f8"),
        ("temperature", "f8"),
        ("request_weight", "f8"),
    ],
    align=True,
)
"""The router's options; the weights are those of Dynamo's KV router, in blocks."""

ROUND_ROBIN, RANDOM, LEAST_REQUESTS, LEAST_TOKENS, POWER_OF_TWO, KV_AWARE = range(6)
METHODS = ("round-robin", "random", "least-requests", "least-tokens", "power-of-two", "kv-aware")


@compiled
def note_dispatch(s: Scheduler, routes: np.recarray, r: int, slot: int, prefill: bool) -> None:
    """The router has sent a request to ``r``, to be prefilled there or only decoded."""
    request, route = s.requests[slot], routes[r]
    route.requests += 1
    route.tokens += request.prompt
    route.blocks += blocks_for(int(request.prompt), s.replicas[r].block_tokens)
    if prefill:
        route.prefill_tokens += request.prompt


@compiled
def note_first_token(s: Scheduler, routes: np.recarray, r: int, slot: int) -> None:
    """Replica ``r`` has prefilled the request."""
    routes[r].prefill_tokens -= s.requests[slot].prompt


@compiled
def note_end(s: Scheduler, routes: np.recarray, r: int, slot: int) -> None:
    """The request has left replica ``r``."""
    request, route = s.requests[slot], routes[r]
    route.requests -= 1
    route.tokens -= request.prompt
    route.blocks -= blocks_for(int(request.prompt), s.replicas[r].block_tokens)


@compiled
def _load(routes: np.recarray, r: int, method: int, prefill: bool) -> int:
    if method == LEAST_REQUESTS:
        return int(routes[r].requests)
    return int(routes[r].prefill_tokens) if prefill else int(routes[r].tokens)


@compiled
def _least(s: Scheduler, routes: np.recarray, members: np.ndarray, method: int, prefill: bool, draw: float) -> int:
    best, least, ties = NONE, 0, 0
    for r in members:
        if not s.replicas[r].alive:
            continue
        load = _load(routes, r, method, prefill)
        if best < 0 or load < least:
            best, least, ties = int(r), load, 1
        elif load == least:
            ties += 1
    if ties <= 1:
        return best
    chosen = int(draw * ties)
    for r in members:
        if s.replicas[r].alive and _load(routes, r, method, prefill) == least:
            if chosen == 0:
                return int(r)
            chosen -= 1
    return best


@compiled
def _nth_alive(s: Scheduler, members: np.ndarray, start: int) -> int:
    count = len(members)
    for i in range(count):
        r = int(members[(start + i) % count])
        if s.replicas[r].alive:
            return r
    return NONE


@compiled
def _kv_cost(s: Scheduler, routes: np.recarray, router: np.recarray, r: int, slot: int, prefill: bool) -> float:
    """Dynamo's cost in blocks: prompt blocks to compute less what is cached, plus blocks in use."""
    options, replica, route = router[0], s.replicas[r], routes[r]
    size = replica.block_tokens
    prompt = int(s.requests[slot].prompt)
    used = route.blocks + blocks_for(prompt, size) + options.request_weight * route.requests
    if not prefill:
        return float(used)
    device = reusable(s, r, slot, 0, 0)
    host = reusable(s, r, slot, 1, device)
    disk = reusable(s, r, slot, 2, device + host)
    credit = options.overlap_credit * device + options.host_weight * host + options.disk_weight * disk
    prefill_blocks = max(0.0, (route.prefill_tokens + prompt) / size - credit)
    return float(options.prefill_load_scale * prefill_blocks + (used if replica.role != 1 else 0.0))


@compiled
def _kv_aware(
    s: Scheduler,
    routes: np.recarray,
    router: np.recarray,
    members: np.ndarray,
    slot: int,
    prefill: bool,
    draw: float,
) -> int:
    low, high, ties, last = math.inf, -math.inf, 0, NONE
    for r in members:
        if s.replicas[r].alive:
            cost = _kv_cost(s, routes, router, int(r), slot, prefill)
            routes[r].cost, last = cost, int(r)
            ties = 1 if cost < low else ties + (1 if cost == low else 0)
            low, high = min(low, cost), max(high, cost)
    if last < 0:
        return NONE
    scale = (high - low) * router[0].temperature
    total = float(ties)
    if scale > 0.0:
        total = 0.0
        for r in members:
            if s.replicas[r].alive:
                total += math.exp((low - routes[r].cost) / scale)
    left = draw * total
    for r in members:
        if s.replicas[r].alive:
            weight = math.exp((low - routes[r].cost) / scale) if scale > 0.0 else 1.0 * (routes[r].cost == low)
            last = int(r) if weight > 0.0 else last
            if weight > 0.0 and left < weight:
                return int(r)
            left -= weight
    return last


@compiled
def choose_replica(
    s: Scheduler,
    routes: np.recarray,
    router: np.recarray,
    members: np.ndarray,
    slot: int,
    prefill: bool,
    draw: float,
    second_draw: float,
) -> int:
    """The replica of ``members`` for a request; the draws are uniform in [0, 1). NONE when none is alive."""
    method, count = router[0].method, len(members)
    if count == 0:
        return NONE
    if method == KV_AWARE:
        return _kv_aware(s, routes, router, members, slot, prefill, draw)
    if method == ROUND_ROBIN:
        turn = router[0].turn if prefill else router[0].turn_decode
        if prefill:
            router[0].turn += 1
        else:
            router[0].turn_decode += 1
        return _nth_alive(s, members, turn % count)
    if method == RANDOM:
        return _nth_alive(s, members, int(draw * count))
    if method == POWER_OF_TWO:
        a = _nth_alive(s, members, int(draw * count))
        b = _nth_alive(s, members, int(second_draw * count))
        return b if a < 0 or (b >= 0 and routes[b].requests < routes[a].requests) else a
    return _least(s, routes, members, method, prefill, draw)
