"""Searches whose answer is known beforehand: planted verdicts, and small scenarios that are searched exhaustively."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

import twofold
from twofold.plan.bounds import Bound, Bounds
from twofold.plan.certify import Certifier, Entry
from twofold.plan.examine import Longer, Question, lasting
from twofold.plan.goodput import Goodput, Grid, climb
from twofold.plan.objective import Objective
from twofold.plan.pool import Threads
from twofold.plan.probe import Probe
from twofold.plan.resources import parse_resources
from twofold.plan.searches import entry_of
from twofold.plan.space import Space
from twofold.spec import catalog
from twofold.spec.deployment import Deployment
from twofold.spec.slo import Slo
from twofold.spec.synthetic import Synthetic
from twofold.spec.workload import Workload

GRID = Grid(0.01)
TIMES = 3
NAMES = [twofold.deployment(f"{count}B", model="llama-3-8b", device="H100") for count in range(1, 13)]


class Truth(NamedTuple):
    """Steps of one deployment: the last that it sustains, in a longer replay, and at most by its bound.

    ``islands``: higher steps at which a run of the short replay passes all the same.
    """

    goodput: int
    longer: int
    bound: int
    islands: frozenset[int] = frozenset()
    weight: float = 1.0

    @property
    def step(self) -> int:
        """The step of its confirmed goodput."""
        eased = GRID.below(GRID.rate(self.goodput) * 0.97)
        return self.goodput if eased <= self.longer else self.longer

    @property
    def value(self) -> float:
        return GRID.rate(self.step) / self.weight if self.step >= GRID.lowest else 0.0


@dataclass(frozen=True, eq=False)
class Planted(Question):
    """Verdicts without a simulation; ``asked`` keeps the steps of the short replay."""

    truths: Mapping[str, Truth] = field(default_factory=dict)
    asked: list[tuple[str, int]] = field(default_factory=list)

    def ask(self, workload: Workload, deployment: Deployment, k: int) -> Probe:
        truth = self.truths[str(deployment)]
        if len(workload) > len(self.workload):
            passes = k <= truth.longer
        else:
            self.asked.append((str(deployment), k))
            passes = k <= truth.goodput or k in truth.islands
        return Probe(self.grid.rate(k), None if passes else "ttft", 0.9)


def steady(count: int = 8) -> Workload:
    return Workload("steady", np.arange(count) * 1.0, np.full(count, 100), np.full(count, 10))


def planted(truths: Sequence[Truth]) -> tuple[Planted, list[Entry]]:
    named = {str(name): truth for name, truth in zip(NAMES, truths, strict=False)}
    entries = [
        Entry(name, Bound(GRID.rate(truth.bound), "prefill compute"), truth.weight, truth.bound)
        for name, truth in zip(NAMES, truths, strict=False)
    ]
    return Planted(steady(), Slo(ttft_s=1.0), GRID, truths=named), entries


class Scenario(NamedTuple):
    """A small planning problem."""

    model: str
    budget: str
    slo: str
    workload: Workload

    @property
    def question(self) -> Question:
        return Question(self.workload, Slo.parse(self.slo), GRID)

    @property
    def space(self) -> Space:
        return Space(catalog.model(self.model), parse_resources(self.budget), Slo.parse(self.slo))


PLACES = (
    ("llama-3-8b", "1xH100"),
    ("llama-3-8b", "1xA100-80GB"),
    ("llama-3-8b", "1xH100 + 1xA100-80GB"),
    ("qwen2.5-3b", "1xL4"),
    ("qwen3-30b-a3b", "1xH100"),
)


def random_scenario(seed: int, most: int = 120) -> Scenario:
    """One of :data:`PLACES` with random lengths, arrivals and limits."""
    rng = np.random.default_rng(seed)
    model, budget = PLACES[rng.integers(len(PLACES))]
    prompt, output = np.exp(rng.uniform(np.log([60, 2]), np.log([4000, 200])))
    workload = Synthetic(
        rate=10.0,
        requests=int(rng.integers(60, most)),
        prompt=f"lognormal:{prompt:.0f}:{rng.uniform(0.1, 1.2):.2f}",
        output=f"lognormal:{output:.0f}:{rng.uniform(0.1, 1.0):.2f}",
        arrivals=str(rng.choice(["poisson", "gamma:2", "constant"])),
        seed=seed,
    ).workload()
    limits = f"ttft<={rng.uniform(0.2, 3.0):.2f}s, tpot<={rng.uniform(15, 80):.0f}ms @{rng.choice([80, 90, 99])}%"
    return Scenario(model, budget, limits, workload)


def exhaustive(scenario: Scenario, start: float = 1.0) -> dict[str, float]:
    """The goodput of every deployment that could be the best, each found without bounds and without the others.

    A longer replay never raises a goodput, so those below the best that is confirmed are left out.
    """
    question = scenario.question
    lowest, highest = GRID.lowest, GRID.highest
    climbed: list[tuple[Goodput, Deployment]] = []
    for each in scenario.space:

        def ask(k: int, each: Deployment = each) -> Probe:
            return question.ask(scenario.workload, each, k)

        climbed.append((climb(ask, GRID, GRID.below(start), lowest, highest), each))
    confirmed = {"none": 0.0}
    for found, each in sorted(climbed, key=lambda pair: -pair[0].rate):
        if found.rate > max(confirmed.values()):
            confirmed[str(each)] = lasting(question, Longer(each, found, TIMES)).found.rate
    return confirmed


def searched(scenario: Scenario, keep: int = 1) -> tuple[Certifier, list[Entry]]:
    """The search behind ``plan``, with a longer replay that is not long."""
    question, space = scenario.question, scenario.space
    bounds = Bounds(scenario.workload, space.model, question.slo, GRID)
    entries = [entry_of(each, bounds(each), Objective(), GRID) for each in space]
    search = Certifier(question, entries, keep, Threads(1), TIMES, GRID.below(scenario.workload.rate))
    return search, search.run()
