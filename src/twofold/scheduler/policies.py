"""The policies: one loop, five orders. Each fills step ``k`` of replica ``r``.

================  ===========================================  ============  =======================
policy            spends the step on                           prompts cut?  decodes beside a prompt?
================  ===========================================  ============  =======================
request-level     a new batch only once the last has finished  no            no
prefill-first     all admissible prompts, else decodes         no            no
mixed             decodes and whole prompts                    no            yes
chunked           decodes, then prompts up to a budget         yes           yes
multiplexed       two lanes: decodes; whole prompts by layers  by layers     in parallel
================  ===========================================  ============  =======================
"""

from collections.abc import Callable

from numba import types

from twofold.compiled import compiled
from twofold.scheduler.fill import take_decodes, take_prompts
from twofold.scheduler.lists import batch_size
from twofold.scheduler.state import (
    BOTH,
    CHUNKED,
    CUSTOM,
    DECODE,
    DECODE_ONLY,
    MIXED,
    MULTIPLEXED,
    PREFILL_FIRST,
    REQUEST_LEVEL,
    SCHEDULER,
    Scheduler,
)

Fill = Callable[[Scheduler, int, int], int]
"""A policy: ``fill(scheduler, replica, step)`` fills the step and returns 0."""


@compiled
def request_level(s: Scheduler, r: int, k: int) -> int:
    """FasterTransformer: a batch of prompts, then its decodes to the last one, then the next batch."""
    if batch_size(s, r) == 0 or s.replicas[r].started > 0:
        take_prompts(s, r, k, True)
    else:
        take_decodes(s, r, k)
    return 0


@compiled
def prefill_first(s: Scheduler, r: int, k: int) -> int:
    """vLLM 0.x and SGLang: a step of prompts whenever one can be admitted, else a step of decodes."""
    replica = s.replicas[r]
    due = replica.decode_every > 0 and replica.since_decode + 1 >= replica.decode_every
    if not (due and replica.decoding > 0):
        take_prompts(s, r, k, True)
    if s.steps[k].items == 0:
        take_decodes(s, r, k)
    return 0


@compiled
def mixed(s: Scheduler, r: int, k: int) -> int:
    """Orca: the decodes and whole prompts in one step."""
    take_decodes(s, r, k)
    take_prompts(s, r, k, True)
    return 0


@compiled
def chunked(s: Scheduler, r: int, k: int) -> int:
    """Sarathi-Serve, algorithm 3 (stall-free batching): decodes, then prompt chunks up to the budget."""
    take_decodes(s, r, k)
    take_prompts(s, r, k, False)
    return 0


@compiled
def multiplexed(s: Scheduler, r: int, k: int) -> int:
    """SGLang PD-Mux: the first lane takes decodes, the second one batch of whole prompts."""
    if k % s.lanes == 0:
        take_decodes(s, r, k)
    else:
        take_prompts(s, r, k, True)
    return 0


@compiled
def _fill(s: Scheduler, r: int, k: int, policy: int) -> int:
    if policy == CHUNKED:
        return chunked(s, r, k)
    if policy == PREFILL_FIRST:
        return prefill_first(s, r, k)
    if policy == MIXED:
        return mixed(s, r, k)
    if policy == MULTIPLEXED:
        return multiplexed(s, r, k)
    if policy == REQUEST_LEVEL:
        return request_level(s, r, k)
    if policy == DECODE_ONLY:
        take_decodes(s, r, k)
    return 0


@compiled
def fill_step(s: Scheduler, r: int, k: int, custom: Fill) -> int:
    """Fill step ``k`` by the policy of replica ``r``.

    A replica that is lent to the other phase runs mixed, and so does a decode replica until prompts that it started
    while it was lent are done.
    """
    replica = s.replicas[r]
    lent = replica.role == BOTH and replica.home_role != BOTH
    if lent or (replica.home_role == DECODE and replica.started > 0):
        return mixed(s, r, k)
    if replica.policy == CUSTOM:
        return custom(s, r, k)
    return _fill(s, r, k, replica.policy)


@compiled
def no_custom(s: Scheduler, r: int, k: int) -> int:
    """Stands in where no custom policy is registered."""
    return 0


_registered: dict[str, Fill] = {"": no_custom}


def policy(name: str) -> Callable[[Fill], Fill]:
    """Register a policy of your own under ``name`` (a decorator); see docs/add-a-policy.md."""

    def register(function: Fill) -> Fill:
        _registered[name] = function
        return function

    return register


def custom_policy(name: str) -> Fill | None:
    """The registered policy ``name``, or None."""
    return _registered.get(name)


def registered_policies() -> set[str]:
    """Names of the policies of one's own that are registered so far."""
    return set(filter(None, _registered))


FILL = types.FunctionType(types.int64(SCHEDULER, types.int64, types.int64))
"""Numba type of a compiled policy."""
