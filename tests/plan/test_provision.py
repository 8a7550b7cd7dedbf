import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted import GRID, NAMES, Truth, planted

import twofold
from twofold.plan.bounds import Bounds
from twofold.plan.certify import BATCH
from twofold.plan.examine import Question
from twofold.plan.goodput import goodput
from twofold.plan.objective import Objective
from twofold.plan.options import ways
from twofold.plan.pool import Threads
from twofold.plan.provision import Fewest, First, Provisioner, at_target, fewest, first, measured, sustained
from twofold.plan.resources import parse_resources
from twofold.plan.space import Space
from twofold.spec import catalog
from twofold.spec.slo import Slo
from twofold.spec.synthetic import Synthetic

SLO = Slo.parse("ttft<=1s, tpot<=60ms @90%")


def workload_of(seed: int, prompt: int = 800, output: int = 60) -> twofold.spec.workload.Workload:
    lengths = {"prompt": f"lognormal:{prompt}:0.5", "output": f"lognormal:{output}:0.5"}
    return Synthetic(rate=5, requests=60, seed=seed, **lengths).workload()


def provisioner(
    gpus: str, aim: Objective, seed: int = 1, keep: int | None = 1, model: str = "qwen2.5-3b", **options: Any
) -> Provisioner:
    spec, workload = catalog.model(model), workload_of(seed)
    space = Space(spec, parse_resources(gpus), SLO, capped=aim.name == "power")
    aimed = Question(at_target(workload, aim.target or 0.0), SLO, GRID)
    every = list(ways(space, Bounds(aimed.workload, spec, SLO, GRID), aim))
    return Provisioner(aimed, every, Threads(1), keep, **options)


def by_brute_force(search: Provisioner, most: int) -> float:
    """The least that any counts of any way take that sustain the target."""
    spent = [
        (way.spent(counts), way, counts)
        for way in search.ways
        for counts in product(range(1, most + 1), repeat=len(way.sides))
        if way.allows(counts)
    ]
    for least, way, counts in sorted(spent, key=lambda each: each[0]):
        if sustained(search.question, way.deployment(counts)):
            return least
    raise AssertionError("no counts sustain the target")


@pytest.mark.parametrize(
    ("gpus", "name", "target", "seed"),
    [
        ("4xL4", "cost", 5.0, 1),
        ("2xL4 + 2xH100", "cost", 20.0, 2),
        ("2xH100 + 3xL4", "power", 40.0, 3),
        ("2xA100-80GB + 1xH100", "cost", 60.0, 4),
        ("2xH100", "power", 100.0, 5),
    ],
)
def test_the_least_is_that_of_all_counts_of_all_ways(gpus: str, name: str, target: float, seed: int) -> None:
    search = provisioner(gpus, Objective(name, target), seed)
    way, counts = search.run()[0]
    assert way.spent(counts) == by_brute_force(search, 4)
    assert sustained(search.question, way.deployment(counts))


def test_one_replica_less_does_not_do() -> None:
    search = provisioner("6xL4", Objective("cost", 30.0), keep=3)
    for way, counts in search.run():
        if len(counts) == 1 and counts[0] > 1:
            assert not sustained(search.question, way.deployment((counts[0] - 1,)))


def test_the_kept_are_in_ascending_order_and_each_is_another_way() -> None:
    found = provisioner("4xL4", Objective("cost", 5.0), keep=4).run()
    spent = [way.spent(counts) for way, counts in found]
    assert spent == sorted(spent)
    assert len({way for way, _ in found}) == len(found) >= 4


def test_any_number_of_two_kinds_serves_a_high_rate_for_least() -> None:
    unlimited, bought = (
        provisioner(gpus, Objective("cost", 300.0), model="smollm2-135m") for gpus in ("A10G + L4", "4xA10G + 4xL4")
    )
    way, counts = unlimited.run()[0]
    assert sum(way.deployment(counts).by_device().values()) > 1
    assert sustained(unlimited.question, way.deployment(counts))
    assert way.spent(counts) <= by_brute_force(bought, 4)


def test_nothing_serves_a_target_out_of_reach() -> None:
    assert provisioner("1xL4", Objective("cost", 500.0)).run() == []


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that tells how often it has been read."""
    monkeypatch.setattr("twofold.plan.provision.time", SimpleNamespace(monotonic=itertools.count().__next__))


def test_out_of_time_it_says_how_much_less_a_way_that_is_left_could_take(ticks: None) -> None:
    every = len(provisioner("4xL4", Objective("cost", 5.0)).ways)
    done, hurried = (provisioner("4xL4", Objective("cost", 5.0), keep=20, deadline=each) for each in (None, every))
    least, early = ([way.spent(counts) for way, counts in search.run()] for search in (done, hurried))
    stopped, gap = hurried.stopped, hurried.gap()
    assert (stopped, len(early) < len(least)) == ("time", True)
    assert least[0] >= early[0] * (1 - gap) * (1 - 1e-9)
    assert 0.0 <= gap < 1.0


def test_out_of_time_before_all_ways_are_bounded_nothing_is_said_of_the_others(ticks: None) -> None:
    hurried = provisioner("4xL4", Objective("cost", 5.0), keep=20, deadline=BATCH)
    assert hurried.run()
    assert (hurried.stopped, hurried.gap()) == ("time", math.inf)
    assert len(hurried.ways) - BATCH - 1 <= hurried.unexamined() < len(hurried.ways)
    assert not any("floor" in vars(way) for way in hurried.ways[BATCH + 1 :])


def test_out_of_time_with_nothing_found_the_search_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    search = provisioner("4xL4", Objective("cost", 5.0), deadline=0.0)
    disaggregated = [way for way in search.ways if len(way.sides) > 1]
    for way in disaggregated[: 2 * BATCH]:
        vars(way)["fewest"] = None
    search.ways = disaggregated
    assert search.run()
    assert search.unexamined() < len(disaggregated) - 2 * BATCH


class Interrupted(Threads):
    """Is interrupted at its ``last`` task."""

    def __init__(self, last: int) -> None:
        super().__init__(1)
        self.left = last

    def map(self, function: Callable[[Any, Any], Any], shared: Any, items: Sequence[Any]) -> list[Any]:
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        return super().map(function, shared, items)


@pytest.mark.parametrize("tasks", [2, 3, 5])
def test_interrupted_it_keeps_what_it_has_and_does_not_call_the_rest_proved(tasks: int) -> None:
    aim = Objective("cost", 5.0)
    search = provisioner("4xL4", aim, keep=40)
    search.pool = Interrupted(tasks)
    if tasks < 3:
        with pytest.raises(KeyboardInterrupt):
            search.run()
        return
    found = search.run()
    stopped, counted, least = search.stopped, (len(search.found), len(search.asked), len(search.ways)), search.gap()
    assert stopped == "interrupted"
    assert counted[0] <= counted[1] < counted[2]
    early = found[0][0].spent(found[0][1])
    assert early * (1 - least) <= by_brute_force(search, 4) * (1 + 1e-9)


@given(st.integers(1, 12), st.integers(0, 12))
def test_the_fewest_is_the_first_that_does(size: int, needed: int) -> None:
    question, _ = planted([Truth(0 if index >= needed else -200, 0, 500) for index in range(12)])
    question = replace(question, workload=question.workload.at_rate(1.0))
    verdicts = [index >= needed for index in range(size)]
    for function, task in ((fewest, Fewest), (first, First)):
        asked: list[bool] = []
        found = _answered(function, task(tuple(NAMES[:size])), question, asked)
        assert found == (verdicts.index(True) if any(verdicts) else None)
        assert len(asked) <= 2 * size


def _answered(function: Any, task: Any, question: Any, asked: list[bool]) -> int | None:
    import twofold.plan.provision as provision

    with pytest.MonkeyPatch.context() as patch:

        def verdict(shared: Any, deployment: Any) -> bool:
            asked.append(shared.ask(shared.workload, deployment, 0).failed is None)
            return asked[-1]

        patch.setattr(provision, "sustained", verdict)
        return function(question, task)


@pytest.mark.parametrize("rate", [0.5, 7.0, 90.0])
def test_a_replay_at_the_target_comes_at_the_target_and_lasts(rate: float) -> None:
    aimed = at_target(workload_of(1), rate)
    assert aimed.rate == pytest.approx(rate)
    assert aimed.span_s >= 30.0 * (1 - 1 / len(aimed)) - 1e-9


def test_what_is_found_serves_at_least_the_target() -> None:
    search = provisioner("4xL4", Objective("cost", 5.0), keep=2)
    found = search.run()[:2]
    question = search.question
    for (way, counts), entry in zip(found, measured(question, found, Threads(1)), strict=True):
        assert entry.deployment == way.deployment(counts)
        alone = goodput(question.workload, entry.deployment, SLO, precision=GRID.precision)
        assert entry.found is not None
        assert entry.found.rate >= 5.0 * (1 - GRID.precision)
        assert entry.found.rate == pytest.approx(alone.rate, rel=0.05)
