"""How many replicas a load needs at the very least, whatever the schedule: the arithmetic under the bounds.

A request brings work, in seconds of one replica, and a deadline. Of the requests whose deadline is at most H, all but
the excused ones must have been served within [0, H], so the replicas are at least their work / H. This holds for any H
and any order of service; the excused are taken to be those with the most work. What preemption may take off that work
(``plan.preemption``) is taken off at every H.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from twofold.compiled import compiled
from twofold.spec.workload import Workload

Floats = NDArray[np.float64]

PIECES = (0.4, 0.6, 0.8, 1.0)
ROUNDING = 1e-6
"""Simulated times are doubles: what must hold of them exactly is asked of them but for this share."""


@dataclass(frozen=True, eq=False)
class Traffic:
    """A workload as the bounds see it, float64[n] each.

    ``arrival_s`` from the first arrival on, at the workload's own ``rate``; ``prompt`` tokens, ``fresh`` those of them
    that no prefix cache can have, ``decodes`` tokens after the first, ``pairs`` the fewest query-key pairs of the
    prompt, ``context`` the KV tokens that its decode steps read in all, ``held`` those of them that no other request
    can have in its memory too. ``hashed``: whether any prefix may be found in a cache.
    """

    rate: float
    arrival_s: Floats
    prompt: Floats
    fresh: Floats
    decodes: Floats
    pairs: Floats
    context: Floats
    held: Floats
    hashed: bool

    def __len__(self) -> int:
        return len(self.prompt)


def traffic_of(workload: Workload) -> Traffic:
    """The traffic of a workload."""
    prompt = workload.prompt_tokens.astype(np.float64)
    decodes = workload.output_tokens.astype(np.float64) - 1.0
    shared = _shared(workload)
    fresh = prompt - np.minimum(shared, prompt - 1.0)
    return Traffic(
        rate=workload.rate,
        arrival_s=workload.arrival_s - workload.arrival_s[0],
        prompt=prompt,
        fresh=fresh,
        decodes=decodes,
        pairs=np.maximum(0.0, fresh * (prompt - fresh) + 0.5 * fresh * (fresh - 1.0)),
        context=_summed(prompt, decodes),
        held=_held(prompt, decodes, shared),
        hashed=workload.hash_tokens > 0,
    )


def last_tokens(traffic: Traffic) -> Traffic:
    """The last decode step of each request as a traffic of its own: no other step of the request takes more."""
    decodes = np.minimum(traffic.decodes, 1.0)
    before = traffic.prompt + np.maximum(traffic.decodes - 1.0, 0.0)
    none = np.zeros(len(traffic))
    return replace(
        traffic, prompt=before, fresh=none, decodes=decodes, pairs=none, context=decodes * before, held=decodes * before
    )


def _summed(first: Floats, count: Floats) -> Floats:
    """first + (first + 1) + ..., so many terms."""
    total: Floats = count * first + 0.5 * count * (count - 1.0)
    return total


def _held(prompt: Floats, decodes: Floats, shared: Floats) -> Floats:
    """KV tokens beyond the ``shared`` first ones in all decode steps: nothing in the steps that lie within those."""
    within = np.clip(shared - prompt, 0.0, decodes)
    return _summed(np.maximum(0.0, prompt + within - shared), decodes - within)


def _shared(workload: Workload) -> Floats:
    """Tokens from the first on that some other request has as well: all but one of them may reuse them."""
    n = len(workload)
    if not workload.hash_tokens:
        return np.zeros(n)
    _, inverse, seen = np.unique(workload.hash_ids, return_inverse=True, return_counts=True)
    owner = np.repeat(np.arange(n), np.diff(workload.hash_start))
    pieces = np.bincount(owner, weights=seen[inverse] > 1, minlength=n).astype(np.float64)
    return pieces * workload.hash_tokens


@compiled
def _most_demanded(
    arrival_s: np.ndarray, slack_s: np.ndarray, work_s: np.ndarray, horizons: np.ndarray, excused: int, spared_s: float
) -> float:
    """Replicas needed; requests are in descending order of their work, so that those excused come first."""
    most = 0.0
    for horizon in horizons:
        left, total = excused, 0.0
        for i in range(len(work_s)):
            if arrival_s[i] + slack_s[i] > horizon:
                continue
            if left > 0 and work_s[i] > 0.0:
                left -= 1
            else:
                total += work_s[i]
        if horizon > 0.0:
            most = max(most, (total - spared_s) / horizon)
    return most


@dataclass(frozen=True, eq=False)
class Duties:
    """Work and deadlines of the requests of a traffic, float64[n], in descending order of work.

    ``spared_s``: the most work of all of them that may be done elsewhere.
    """

    rate: float
    arrival_s: Floats
    slack_s: Floats
    work_s: Floats
    excused: int
    spared_s: float = 0.0

    def replicas_needed(self, rate: float) -> float:
        """Replicas without which the load cannot be served at ``rate`` requests/s; not rounded up."""
        arrival_s = self.arrival_s * (self.rate / rate)
        span = float(arrival_s.max())
        horizons = np.array(
            [*(piece * span for piece in PIECES), span + np.median(self.slack_s), span + self.slack_s.max()]
        )
        horizons = horizons[np.isfinite(horizons)]
        return float(_most_demanded(arrival_s, self.slack_s, self.work_s, horizons, self.excused, self.spared_s))


def duties(traffic: Traffic, work_s: Floats, slack_s: Floats, excused: int, spared_s: float = 0.0) -> Duties:
    """What ``traffic`` asks of replicas.

    ``work_s`` float64[n] seconds of one replica that each request takes, ``slack_s`` float64[n] seconds from its
    arrival to its deadline; all but ``excused`` requests keep theirs, and ``spared_s`` of their work is done elsewhere.
    """
    order = np.argsort(-work_s)
    return Duties(traffic.rate, traffic.arrival_s[order], slack_s[order], work_s[order], excused, spared_s)


def highest_rate(duties: Duties, replicas: float, rates: Sequence[float], known: dict[int, float]) -> float:
    """The lowest of the ascending ``rates`` that so many replicas certainly cannot serve; infinite when there is none.

    What cannot be served at one rate cannot be at a higher one either: the same requests, closer together.
    ``known`` keeps the replicas needed by index of the rate.
    """
    low, high = -1, len(rates)
    while high - low > 1:
        middle = (low + high) // 2
        if middle not in known:
            known[middle] = duties.replicas_needed(rates[middle])
        if known[middle] > replicas * (1.0 + ROUNDING):
            high = middle
        else:
            low = middle
    return rates[high] if high < len(rates) else float("inf")
