"""Load on a server: requests at the times of a workload (open loop), or so many at once (closed loop).

In the open loop a request's clock starts when it was due, however late it is sent, so that a server that holds up the
client cannot hide behind it (coordinated omission). In the closed loop it starts when a place becomes free.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from twofold.clients.answer import Answer
from twofold.clients.api import Api
from twofold.clients.http import AnswerError
from twofold.spec.workload import Workload

WATCH_S = 0.5


@dataclass(slots=True)
class Outcome:
    """What became of a request. Stamps in seconds; ``due_s`` and ``ended_s`` None: it was not started, not ended."""

    due_s: float | None = None
    ended_s: float | None = None
    answer: Answer = field(default_factory=Answer)
    failure: AnswerError | None = None


Watch = Callable[[Sequence[Outcome]], bool]
"""Told of the outcomes so far, from time to time; True ends the load."""


class Applied(NamedTuple):
    """A load that is over: an outcome for each request, seconds of the client's core, whether it was ended early."""

    outcomes: list[Outcome]
    cpu_s: float
    stopped: bool


async def apply(
    api: Api, workload: Workload, bodies: Sequence[bytes], concurrency: int | None = None, watch: Watch | None = None
) -> Applied:
    """Send the bodies of ``workload``'s requests: at their times, or ``concurrency`` at once in their order."""
    outcomes = [Outcome() for _ in bodies]
    cpu_s = time.process_time()
    sending = (
        _open(api, workload, bodies, outcomes) if concurrency is None else _closed(api, bodies, outcomes, concurrency)
    )
    stopped = await _watched(asyncio.ensure_future(sending), outcomes, watch)
    return Applied(outcomes, time.process_time() - cpu_s, stopped)


async def _open(api: Api, workload: Workload, bodies: Sequence[bytes], outcomes: list[Outcome]) -> None:
    start_s = time.perf_counter() - float(workload.arrival_s[0])
    async with asyncio.TaskGroup() as group:
        for outcome, body, arrival_s in zip(outcomes, bodies, workload.arrival_s.tolist(), strict=True):
            outcome.due_s = start_s + arrival_s
            await asyncio.sleep(outcome.due_s - time.perf_counter())
            group.create_task(_one(api, body, outcome))


async def _closed(api: Api, bodies: Sequence[bytes], outcomes: list[Outcome], concurrency: int) -> None:
    waiting = iter(zip(outcomes, bodies, strict=True))

    async def place() -> None:
        for outcome, body in waiting:
            outcome.due_s = time.perf_counter()
            await _one(api, body, outcome)

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(place())


async def _one(api: Api, body: bytes, outcome: Outcome) -> None:
    try:
        await api.answer(body, outcome.answer)
    except AnswerError as failure:
        outcome.failure = failure
    outcome.ended_s = time.perf_counter()


async def _watched(sending: asyncio.Future[None], outcomes: list[Outcome], watch: Watch | None) -> bool:
    try:
        while not sending.done():
            await asyncio.wait({sending}, timeout=WATCH_S)
            if watch is not None and watch(outcomes) and not sending.done():
                return True
        await sending
        return False
    finally:
        sending.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.wait({sending})
