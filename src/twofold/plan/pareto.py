"""The front of price, power and tails: ways to serve a rate that no other way beats in every respect."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twofold.plan.examine import Question
from twofold.plan.options import Way
from twofold.plan.pool import Pool
from twofold.plan.resources import price_of, watts_of
from twofold.simulate.run import simulate
from twofold.spec.deployment import Deployment

Found = tuple[Way, tuple[int, ...]]
TAIL = 0.99


class Tails(NamedTuple):
    """P99 of TTFT and of TBT in seconds."""

    ttft_s: float
    tbt_s: float


def tails(question: Question, deployment: Deployment) -> Tails:
    """The tails at the rate of the question."""
    result = simulate(question.workload, deployment, question.slo, roofline=question.roofline)
    ttft = np.where(np.isnan(result.ttft_s), np.inf, result.ttft_s)
    return Tails(float(np.quantile(ttft, TAIL, method="inverted_cdf")), result.tbt_quantile(TAIL))


def front(question: Question, found: Sequence[Found], pool: Pool) -> list[tuple[Found, Tails]]:
    """Those of ``found`` that no other one beats in USD an hour, watts and tails, cheapest first, with their tails."""
    deployments = [way.deployment(counts) for way, counts in found]
    points = [
        (price_of(deployment), watts_of(deployment), *each)
        for deployment, each in zip(deployments, pool.map(tails, question, deployments), strict=True)
    ]
    kept = undominated(np.array(points).reshape(len(points), 4))
    return [(found[index], Tails(*points[index][2:])) for index in sorted(kept, key=lambda index: points[index])]


def undominated(points: NDArray[np.float64]) -> list[int]:
    """Rows of ``points`` [n, m] that no other row is at least as small as everywhere and smaller somewhere."""
    kept = []
    for index, point in enumerate(points):
        as_small = (points <= point).all(axis=1)
        smaller = (points < point).any(axis=1)
        if not (as_small & smaller).any():
            kept.append(index)
    return kept
