"""How many replicas a load needs at the very least, whatever the schedule: the arithmetic under the bounds.

A request brings work, in seconds of one replica, and a deadline. Of the requests whose deadline is at most H, all but
the excused ones must have been served within [0, H], so the replicas are at least their work / H. This holds for any H
and any order of service; the excused are taken to be those with the most work.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twofold.compiled import compiled
from twofold.spec.workload import Workload

Floats = NDArray[np.float64]

PIECES = (0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True, eq=False)
class Traffic:
    """A workload as the bounds see it, float64[n] each.

    ``arrival_s`` from the first arrival on, at the workload's own ``rate``; ``prompt`` tokens, ``fresh`` those of them
    that no prefix cache can have, ``decodes`` tokens after the first, ``pairs`` the fewest query-key pairs of the
    prompt, ``context`` the KV tokens that its decode steps read in all.
    """

    rate: float
    arrival_s: Floats
    prompt: Floats
    fresh: Floats
    decodes: Floats
    pairs: Floats
    context: Floats

    def __len__(self) -> int:
        return len(self.prompt)


def traffic_of(workload: Workload) -> Traffic:
    """The traffic of a workload."""
    prompt = workload.prompt_tokens.astype(np.float64)
    decodes = workload.output_tokens.astype(np.float64) - 1.0
    fresh = prompt - _reusable(workload)
    return Traffic(
        rate=workload.rate,
        arrival_s=workload.arrival_s - workload.arrival_s[0],
        prompt=prompt,
        fresh=fresh,
        decodes=decodes,
        pairs=np.maximum(0.0, fresh * (prompt - fresh) + 0.5 * fresh * (fresh - 1.0)),
        context=decodes * prompt + 0.5 * decodes * (decodes - 1.0),
    )


def _reusable(workload: Workload) -> Floats:
    """Prompt tokens of each request that some other request has in front as well; all but one may be such."""
    n = len(workload)
    if not workload.hash_tokens:
        return np.zeros(n)
    _, inverse, seen = np.unique(workload.hash_ids, return_inverse=True, return_counts=True)
    shared = seen[inverse] > 1
    owner = np.repeat(np.arange(n), np.diff(workload.hash_start))
    pieces = np.bincount(owner, weights=shared, minlength=n)
    reusable: Floats = np.minimum(pieces * workload.hash_tokens, workload.prompt_tokens - 1.0)
    return reusable


@compiled
def _most_demanded(
    arrival_s: np.ndarray, slack_s: np.ndarray, work_s: np.ndarray, horizons: np.ndarray, excused: int
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
            most = max(most, total / horizon)
    return most


@dataclass(frozen=True, eq=False)
class Duties:
    """Work and deadlines of the requests of a traffic, float64[n], in descending order of work."""

    rate: float
    arrival_s: Floats
    slack_s: Floats
    work_s: Floats
    excused: int

    def replicas_needed(self, rate: float) -> float:
        """Replicas without which the load cannot be served at ``rate`` requests/s; not rounded up."""
        arrival_s = self.arrival_s * (self.rate / rate)
        span = float(arrival_s.max())
        horizons = np.array(
            [*(piece * span for piece in PIECES), span + np.median(self.slack_s), span + self.slack_s.max()]
        )
        horizons = horizons[np.isfinite(horizons)]
        return float(_most_demanded(arrival_s, self.slack_s, self.work_s, horizons, self.excused))


def duties(traffic: Traffic, work_s: Floats, slack_s: Floats, excused: int) -> Duties:
    """What ``traffic`` asks of replicas.

    ``work_s`` float64[n] seconds of one replica that each request takes, ``slack_s`` float64[n] seconds from its
    arrival to its deadline; all but ``excused`` requests keep theirs.
    """
    order = np.argsort(-work_s)
    return Duties(traffic.rate, traffic.arrival_s[order], slack_s[order], work_s[order], excused)


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
        if known[middle] > replicas:
            high = middle
        else:
            low = middle
    return rates[high] if high < len(rates) else float("inf")
