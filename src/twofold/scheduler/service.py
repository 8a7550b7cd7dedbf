"""What a living service asks of the scheduler: slots that are used again, requests that end early or leave.

A simulator knows every request from the start. A service takes one into a free slot (``arrive``), learns how many
tokens it gives only when its last one comes (``last_token``), and may lose it at any time (``leave``).
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
from numba import types

from twofold.compiled import compiled, compiled_as
from twofold.scheduler.lists import leave_lists
from twofold.scheduler.memory import release
from twofold.scheduler.policies import FILL, Fill, no_custom
from twofold.scheduler.queue import enqueue, withdraw
from twofold.scheduler.state import DECODING, DONE, HELD, LOADING, SCHEDULER, STARTED, WAITING, Scheduler
from twofold.scheduler.step import plan_step

Plan = Callable[[Any, int, int, Any], int]


@compiled
def arrive(s: Scheduler, r: int, slot: int, arrival: float, prompt: int, output: int, priority: int) -> None:
    """A request of ``prompt`` tokens, and of at most ``output``, enters ``slot`` and the queue of replica ``r``."""
    request = s.requests[slot]
    request.arrival, request.prompt, request.output, request.rank = arrival, prompt, output, priority
    request.target, request.generated, request.moves = prompt, 0, 0
    request.planned = request.computed = request.context = request.reused = 0
    request.blocks = request.registered = request.in_flight = request.preemptions = 0
    request.from_host = request.from_disk = 0
    enqueue(s, r, slot)


@compiled
def last_token(s: Scheduler, slot: int) -> None:
    """Told before ``commit`` that the token which the step gave to ``slot`` is its last."""
    s.requests[slot].output = s.requests[slot].generated + 1


@compiled
def leave(s: Scheduler, r: int, slot: int) -> bool:
    """Take a request off replica ``r`` and free its blocks; False, and nothing done, while it is in a step.

    Nothing is to be done for one that has ended. Not for a request whose KV is on a link.
    """
    request = s.requests[slot]
    if request.in_flight:
        return False
    if request.state == WAITING:
        withdraw(s, r, slot)
    elif request.state in (LOADING, STARTED, DECODING):
        leave_lists(s, r, slot)
        release(s, r, slot)
    elif request.state == HELD:
        s.replicas[r].held -= 1
        release(s, r, slot)
    request.state = DONE
    return True


def _plan(s: Scheduler, r: int, k: int, custom: Fill) -> int:
    return plan_step(s, r, k, custom)


@cache
def planner() -> Plan:
    """``plan_step`` for callers that are not compiled."""
    if numba.config.DISABLE_JIT:
        return _plan
    return compiled_as(types.int64(SCHEDULER, types.int64, types.int64, FILL))(_plan)


@cache
def compiled_fill(function: Fill) -> Any:
    """A policy as ``planner()`` takes it.

    One of a user's own is compiled in every process: a cache would miss changes of what its file imports.
    """
    if numba.config.DISABLE_JIT:
        return function
    if function is no_custom:
        return compiled_as(FILL.signature)(getattr(no_custom, "py_func", no_custom))
    return numba.njit(FILL.signature, error_model="numpy", nogil=True)(getattr(function, "py_func", function))
