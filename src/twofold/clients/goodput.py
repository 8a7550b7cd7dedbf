"""The highest rate that a server sustains under an SLO, by bisection with real load.

Rates, climb and verdict are those of ``plan.goodput`` and ``plan.probe``; only the probe is real.
"""

import time
from collections.abc import Callable, Sequence

import numpy as np

from twofold.clients.bench import Bench
from twofold.clients.load import Outcome, Watch
from twofold.clients.measured import Measured
from twofold.plan.goodput import Goodput, Grid, climb
from twofold.plan.probe import SUSTAINABLE_TTFT_S, Probe, binding_limit
from twofold.simulate.attainment import attainment_of
from twofold.simulate.rules import rules_of
from twofold.spec.slo import METRICS, Slo
from twofold.spec.workload import Workload

PRECISION = 0.05
RANGE = 64.0
Told = Callable[[Probe], None]


def sustained(
    bench: Bench, workload: Workload, slo: Slo, watch: Watch | None = None, told: Told | None = None
) -> Goodput:
    """Bisect the rate of ``workload``'s requests, from its own rate on, by at most ``RANGE`` either way.

    The answer is within ``PRECISION`` of where the verdict changes. A load that has certainly failed is ended.
    ``told`` hears of every probe. SpecError when all requests arrive at once.
    """
    grid = Grid(PRECISION)
    workload.at_rate(1.0)

    def ask(k: int) -> Probe:
        timed = workload.at_rate(grid.rate(k))
        found = judged(bench.load(timed, slo, watch=hopeless(timed, slo, watch)), slo)
        if told is not None:
            told(found)
        return found

    return climb(
        ask, grid, grid.below(workload.rate), grid.below(workload.rate / RANGE), grid.below(workload.rate * RANGE)
    )


def judged(measured: Measured, slo: Slo) -> Probe:
    """The verdict on a load."""
    attainment = None if measured.stopped else attainment_of(measured, slo)
    return Probe(measured.workload.rate, binding_limit(measured, slo), attainment)


def hopeless(workload: Workload, slo: Slo, watch: Watch | None = None) -> Watch:
    """A watch that ends a load once it has certainly failed ``slo`` or is not sustained; tells ``watch`` as well."""
    rules = rules_of(slo, len(workload), SUSTAINABLE_TTFT_S)

    limits = np.stack([rules.ttft_s, rules.tpot_s, rules.tbt_s, rules.e2e_s], axis=1)
    least = np.zeros((len(workload), len(METRICS)))
    settled = np.zeros(len(workload), np.bool_)

    def ends(outcomes: Sequence[Outcome]) -> bool:
        if watch is not None:
            watch(outcomes)
        now = time.perf_counter()
        for place, outcome in enumerate(outcomes):
            if outcome.due_s is not None and not settled[place]:
                least[place] = lower_bounds(outcome, now)
                settled[place] = outcome.ended_s is not None
        broken = (least[:, None, :] > limits[None]).any(axis=2).sum(axis=0)
        return bool((broken > rules.allowed).any())

    return ends


def lower_bounds(outcome: Outcome, now: float) -> tuple[float, float, float, float]:
    """The least that TTFT, TPOT, longest gap and end-to-end time of a request can be, known ``now``; seconds."""
    answer = outcome.answer
    assert outcome.due_s is not None
    if outcome.failure is not None:
        return (np.inf,) * 4
    ttft = (answer.times[0] if answer.times else now) - outcome.due_s
    if outcome.ended_s is None:
        return ttft, 0.0, 0.0, now - outcome.due_s
    spent = answer.times[-1] - answer.times[0]
    return ttft, spent / max(answer.tokens - 1, 1), max(answer.gaps(), default=0.0), answer.times[-1] - outcome.due_s
