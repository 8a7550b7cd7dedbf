import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from planted import GRID

import twofold
from twofold.plan.bounds import Bounds
from twofold.plan.examine import Question
from twofold.plan.objective import Objective
from twofold.plan.options import ways
from twofold.plan.pareto import front, tails, undominated
from twofold.plan.pool import Threads
from twofold.plan.provision import Provisioner, at_target
from twofold.plan.resources import parse_resources, price_of, watts_of
from twofold.plan.space import Space
from twofold.spec import catalog
from twofold.spec.slo import Slo
from twofold.spec.synthetic import Synthetic

SLO = Slo.parse("ttft<=1s, tpot<=60ms @90%")
TARGET = 20.0


@given(arrays(np.float64, st.tuples(st.integers(1, 30), st.integers(1, 4)), elements=st.integers(0, 5).map(float)))
def test_the_front_is_what_no_other_point_beats(points: np.ndarray) -> None:
    kept = undominated(points)
    for index, point in enumerate(points):
        beaten = any((other <= point).all() and (other < point).any() for other in points)
        assert beaten == (index not in kept)


@given(arrays(np.float64, st.tuples(st.integers(1, 30), st.just(3)), elements=st.floats(0, 1)))
def test_what_is_not_on_the_front_is_beaten_by_something_on_it(points: np.ndarray) -> None:
    kept = points[undominated(points)]
    assert all(((kept <= point).all(axis=1)).any() for point in points)


def test_equal_points_are_all_on_the_front_and_no_points_have_none() -> None:
    assert undominated(np.ones((3, 2))) == [0, 1, 2]
    assert undominated(np.zeros((0, 4))) == []


@pytest.fixture(scope="module")
def search() -> Provisioner:
    workload = Synthetic(rate=5, requests=60, prompt="lognormal:800:0.5", output="fixed:40", seed=2).workload()
    model = catalog.model("qwen2.5-3b")
    aimed = Question(at_target(workload, TARGET), SLO, GRID)
    space = Space(model, parse_resources("2xL4 + 1xH100"), SLO, capped=True)
    every = list(ways(space, Bounds(aimed.workload, model, SLO, GRID), Objective("pareto", TARGET)))
    return Provisioner(aimed, every, Threads(1), None)


def measures(search: Provisioner, deployment: twofold.deployment) -> np.ndarray:
    result = twofold.simulate(search.question.workload, deployment, SLO)
    ttft = np.quantile(np.where(result.completed, result.ttft_s, np.inf), 0.99, method="inverted_cdf")
    return np.array([price_of(deployment), watts_of(deployment), ttft, result.tbt_quantile(0.99)])


def test_the_front_of_the_ways_is_found_by_brute_force(search: Provisioner) -> None:
    found = search.run()
    on_front = front(search.question, found, Threads(1))
    kept = [each for each, _ in on_front]
    points = [measures(search, way.deployment(counts)) for way, counts in found]
    best = [
        str(way.deployment(counts))
        for (way, counts), point in zip(found, points, strict=True)
        if not any((other <= point).all() and (other < point).any() for other in points)
    ]
    assert sorted(str(way.deployment(counts)) for way, counts in kept) == sorted(best)
    assert 1 < len(kept) < len(found)
    prices = [price_of(way.deployment(counts)) for way, counts in kept]
    assert prices == sorted(prices)
    for (way, counts), ends in on_front:
        assert ends == pytest.approx(tuple(measures(search, way.deployment(counts))[2:]))


def test_tails_are_the_p99_of_the_run_at_the_target(search: Provisioner) -> None:
    deployment = twofold.deployment("1B", model="qwen2.5-3b", device="H100")
    assert tails(search.question, deployment) == pytest.approx(tuple(measures(search, deployment)[2:]))


def test_requests_that_never_start_have_infinite_tails() -> None:
    workload = Synthetic(rate=5, requests=20, prompt="fixed:130000", output="fixed:4", seed=2).workload()
    deployment = twofold.deployment("1B", model="llama-3-8b", device="L4")
    ttft, _ = tails(Question(workload, SLO, GRID), deployment)
    assert ttft == float("inf")
