"""The front of price, power and tails: ways to serve a rate that no other way beats in every respect."""

from collections.abc import Sequence

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


def tails(question: Question, deployment: Deployment) -> tuple[float, float]:
    """P99 of TTFT and of TBT in seconds, at the rate of the question."""
    result = simulate(question.workload, deployment, question.slo, roofline=question.roofline)
    ttft = np.where(np.isnan(result.ttft_s), np.inf, result.ttft_s)
    return float(np.quantile(ttft, TAIL, method="inverted_cdf")), result.tbt_quantile(TAIL)


def front(question: Question, found: Sequence[Found], pool: Pool) -> list[Found]:
    """Those of ``found`` that no other one beats in USD an hour, watts, P99 TTFT and P99 TBT, cheapest first."""
    deployments = [way.deployment(counts) for way, counts in found]
    points = [
        (price_of(deployment), watts_of(deployment), *both)
        for deployment, both in zip(deployments, pool.map(tails, question, deployments), strict=True)
    ]
    kept = undominated(np.array(points).reshape(len(points), 4))
    return [found[index] for index in sorted(kept, key=lambda index: points[index])]


def undominated(points: NDArray[np.float64]) -> list[int]:
    """Rows of ``points`` [n, m] that no other row is at least as small as everywhere and smaller somewhere."""
    kept = []
    for index, point in enumerate(points):
        as_small = (points <= point).all(axis=1)
        smaller = (points < point).any(axis=1)
        if not (as_small & smaller).any():
            kept.append(index)
    return kept
