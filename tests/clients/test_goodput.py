"""Against a queue with known answers: one place, a fixed service time, arrivals at a constant gap."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from stubs import outcome

from twofold.clients.goodput import PRECISION, RANGE, hopeless, lower_bounds, sustained
from twofold.clients.load import Applied, Outcome, Watch
from twofold.clients.measured import Measured
from twofold.errors import SpecError
from twofold.plan.probe import Probe
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload

SERVICE_S, TOKENS = 0.1, 3
TIGHT = Slo.parse("ttft<=0.101s @99%")


class Queue:
    """A bench whose server answers one request after the other, each within SERVICE_S of its turn."""

    def __init__(self) -> None:
        self.rates: list[float] = []

    def load(self, workload: Workload, slo: Slo, watch: Watch | None = None) -> Measured:
        self.rates.append(workload.rate)
        free, outcomes = 0.0, []
        for arrival in workload.arrival_s:
            free = max(free, float(arrival)) + SERVICE_S
            outcomes.append(outcome(float(arrival), [free] * TOKENS))
        return Measured(workload, slo, Applied(outcomes, 0.0, False))


def test_the_rate_is_where_the_queue_begins(make: Callable[..., Workload]) -> None:
    queue, told = Queue(), []
    found = sustained(queue, make([TOKENS] * 200, gap_s=0.25), TIGHT, told=told.append)  # type: ignore[arg-type]
    assert 1 / SERVICE_S / (1 + PRECISION) <= found.rate <= 1 / SERVICE_S * (1 + PRECISION / 10)
    assert (found.attainment, found.limit, found.probes) == (1.0, "ttft", len(told))
    assert [probe.rate for probe in told] == pytest.approx(queue.rates)
    assert {probe.failed for probe in told} == {None, "ttft"}


def test_a_server_too_slow_for_any_rate_in_range_has_no_goodput(make: Callable[..., Workload]) -> None:
    queue = Queue()
    found = sustained(queue, make([TOKENS] * 20, gap_s=0.25), Slo.parse("ttft<=0.05s"))  # type: ignore[arg-type]
    assert found.rate == 0.0
    assert min(queue.rates) >= 4 / RANGE / (1 + PRECISION)


def test_requests_that_arrive_at_once_have_no_rate(make: Callable[..., Workload]) -> None:
    with pytest.raises(SpecError, match="arrive at once"):
        sustained(Queue(), make([3, 3], gap_s=0.0), TIGHT)  # type: ignore[arg-type]


def waiting(due_s: float) -> Outcome:
    return Outcome(due_s)


@pytest.mark.parametrize(
    ("slo", "outcomes", "ends"),
    [
        ("ttft<=1s @50%", [waiting(-2), waiting(-2), waiting(-2), Outcome()], True),
        ("ttft<=1s @50%", [waiting(-2), waiting(-2), waiting(0), Outcome()], False),
        ("ttft<=1s @90%", [outcome(0, [], kind="http 500"), Outcome(), Outcome(), Outcome()], True),
        ("ttft<=1s @90%", [Outcome(), Outcome(), Outcome(), Outcome()], False),
        ("tpot<=1s @75%", [outcome(-9, [-9, -5, -3]), outcome(-9, [-9, -8.5]), Outcome(), Outcome()], False),
        ("tpot<=1s @75%", [outcome(-9, [-9, -5, -3]), outcome(-9, [-9, -7.5]), Outcome(), Outcome()], True),
        ("tbt<=3s @99%", [outcome(-9, [-9, -5, -4.9, -4.8]), Outcome(), Outcome(), Outcome()], True),
        ("e2e<=3s @99%", [waiting(-4), Outcome(), Outcome(), Outcome()], True),
        ("p50 ttft<=1s", [waiting(-2), waiting(-2), waiting(-2), Outcome()], True),
    ],
)
def test_a_load_ends_once_it_has_certainly_failed(
    slo: str, outcomes: list[Outcome], ends: bool, make: Callable[..., Workload], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)
    told: list[Any] = []
    watch = hopeless(make([3] * 4), Slo.parse(slo), lambda seen: bool(told.append(seen)))
    assert watch(outcomes) == watch(outcomes) == ends
    assert told == [outcomes, outcomes]


def test_what_is_certain_is_never_more_than_what_is_measured() -> None:
    ended = outcome(1.0, [1.2, 1.3, 1.7])
    assert lower_bounds(ended, 99.0) == pytest.approx((0.2, 0.25, 0.4, 0.7))
    under_way = outcome(1.0, [1.2, 1.3])
    under_way.ended_s = None
    assert lower_bounds(under_way, 1.4) == pytest.approx((0.2, 0.0, 0.0, 0.4))
    assert np.isinf(lower_bounds(outcome(1.0, [], kind="timeout"), 2.0)).all()


def test_the_verdict_names_the_limit(make: Callable[..., Workload]) -> None:
    from twofold.clients.goodput import judged

    workload = make([TOKENS] * 20, gap_s=0.05)
    slo = Slo.parse("ttft<=0.2s, tpot<=1s @90%")
    verdict = judged(Queue().load(workload, slo), slo)
    assert verdict == Probe(workload.rate, "ttft", pytest.approx(0.15))
