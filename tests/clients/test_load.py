import asyncio
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from twofold.clients.answer import Answer
from twofold.clients.http import AnswerError
from twofold.clients.load import Applied, Outcome, apply
from twofold.spec.workload import Workload

Work = Callable[[bytes], Any]


class Stub:
    """An API whose answers are what a coroutine makes of a body; it knows how many are under way."""

    def __init__(self, work: Work) -> None:
        self.work, self.under_way, self.most = work, 0, 0
        self.order: list[bytes] = []

    async def answer(self, body: bytes, answer: Answer) -> None:
        self.order.append(body)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            answer.sent(time.perf_counter())
            await self.work(body)
            answer.times.append(time.perf_counter())
            answer.counts.append(1)
        finally:
            self.under_way -= 1


def workload(arrivals: list[float]) -> Workload:
    ones = np.ones(len(arrivals), np.int32)
    return Workload("made", np.array(arrivals), ones, ones)


def applied(stub: Stub, arrivals: list[float], **options: Any) -> Applied:
    bodies = [str(number).encode() for number in range(len(arrivals))]
    return asyncio.run(apply(stub, workload(arrivals), bodies, **options))  # type: ignore[arg-type]


def test_open_loop_keeps_the_times_of_the_workload() -> None:
    stub = Stub(lambda _: asyncio.sleep(0.3))
    outcomes = applied(stub, [3.0, 3.01, 3.02, 3.1]).outcomes
    due = np.array([outcome.due_s for outcome in outcomes])
    assert due - due[0] == pytest.approx([0.0, 0.01, 0.02, 0.1])
    assert all(outcome.answer.sent_s >= outcome.due_s for outcome in outcomes)
    assert stub.most >= 2


def test_a_client_that_was_held_up_counts_from_when_requests_were_due() -> None:
    async def holds_up(_: bytes) -> None:
        time.sleep(0.05)

    outcomes = applied(Stub(holds_up), [0.0, 0.001, 0.002, 0.003]).outcomes
    for number, outcome in enumerate(outcomes):
        assert outcome.answer.times[0] - outcome.due_s >= 0.05 * (number + 1) - 0.001 * number
    assert outcomes[3].answer.sent_s - outcomes[3].due_s >= 0.147


def test_closed_loop_keeps_so_many_under_way_in_order() -> None:
    stub = Stub(lambda _: asyncio.sleep(0.005))
    outcomes = applied(stub, [0.0] * 12, concurrency=3).outcomes
    assert stub.most == 3
    assert stub.order == [str(number).encode() for number in range(12)]
    ends = sorted(outcome.ended_s for outcome in outcomes)
    assert all(outcome.due_s >= end for outcome, end in zip(outcomes[3:], ends, strict=False))


def test_failures_are_kept_and_do_not_end_the_load() -> None:
    async def fails(body: bytes) -> None:
        if body == b"1":
            raise AnswerError("http 500", "no")

    outcomes = applied(Stub(fails), [0.0] * 3).outcomes
    assert [outcome.failure and outcome.failure.kind for outcome in outcomes] == [None, "http 500", None]
    assert all(outcome.ended_s is not None for outcome in outcomes)


def test_a_fault_of_the_client_is_not_taken_for_one_of_the_server() -> None:
    async def fails(_: bytes) -> None:
        raise KeyError("a mistake")

    with pytest.raises(ExceptionGroup) as caught:
        applied(Stub(fails), [0.0])
    assert caught.group_contains(KeyError)


def test_a_watch_ends_the_load_and_what_is_under_way() -> None:
    watched: list[int] = []

    def watch(outcomes: list[Outcome]) -> bool:
        watched.append(sum(outcome.due_s is not None for outcome in outcomes))
        return len(watched) == 2

    stub = Stub(lambda _: asyncio.sleep(60))
    found = applied(stub, [0.0, 0.0, 100.0], watch=watch)
    assert found.stopped
    assert [outcome.ended_s for outcome in found.outcomes] == [None] * 3
    assert watched[0] >= 2
    assert stub.under_way == 0


def test_a_load_that_ends_by_itself_was_not_stopped() -> None:
    found = applied(Stub(lambda _: asyncio.sleep(0)), [0.0], watch=lambda _: True)
    assert not found.stopped
    assert found.cpu_s >= 0
