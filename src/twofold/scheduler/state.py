"""What the scheduler knows: NamedTuples of NumPy record arrays, one slot a request, one record a replica.

There is no clock here. The caller (a simulator or an engine) writes what happened and reads what to do next.

The KV of a request, in tokens, while its prompt is being computed and afterwards::

    |-- reused --|-- computed --|-- planned (in flight) --|-- to come --|        prompts: target tokens in all
    |------------------- context -------------------------|              after prefill it grows by 1 a decode
"""

from typing import Any, NamedTuple

import numba
import numpy as np

from twofold.compiled import compiled
from twofold.cost.step import COST, SIZES
from twofold.reference import Handle, reference_type, write_field

REQUEST = np.dtype(
    [
        ("arrival", "f8"),
        ("key", "f8"),
        ("table", "i8"),
        ("hashes", "i8"),
        ("hash_count", "i4"),
        ("prompt", "i4"),
        ("output", "i4"),
        ("rank", "i4"),
        ("target", "i4"),
        ("planned", "i4"),
        ("computed", "i4"),
        ("generated", "i4"),
        ("context", "i4"),
        ("blocks", "i4"),
        ("registered", "i4"),
        ("replica", "i4"),
        ("left", "i4"),
        ("right", "i4"),
        ("admission", "i8"),
        ("state", "i4"),
        ("in_flight", "i4"),
        ("preemptions", "i4"),
        ("reused", "i4"),
        ("from_host", "i4"),
        ("from_disk", "i4"),
        ("moves", "i4"),
    ],
    align=True,
)
"""One slot a request. Token counts: ``target`` to prefill (prompt, or prompt + generated after a preemption),
``planned`` and ``computed`` of it, ``context`` KV tokens held, ``reused`` from a prefix. ``key`` orders the waiting
queue within ``rank``; ``left``, ``right`` link it. ``table`` is the first entry of its block table,
``hashes`` the first of its prefix hashes. ``from_host``, ``from_disk`` are tokens that come back from a lower tier;
``moves`` says that it is decoded elsewhere than it is prefilled."""

REPLICA = np.dtype(
    [
        ("policy", "i4"),
        ("role", "i4"),
        ("home_role", "i4"),
        ("order", "i4"),
        ("reserve", "i4"),
        ("identified", "i4"),
        ("lanes", "i4"),
        ("stages", "i4"),
        ("token_budget", "i8"),
        ("budget_s", "f8"),
        ("max_batch", "i8"),
        ("prompt_cap", "i8"),
        ("block_tokens", "i8"),
        ("total_blocks", "i8"),
        ("free_blocks", "i8"),
        ("prefill_every", "i8"),
        ("decode_every", "i8"),
        ("since_prefill", "i8"),
        ("since_decode", "i8"),
        ("ageing_s", "f8"),
        ("queue", "i8"),
        ("waiting", "i8"),
        ("started", "i8"),
        ("decoding", "i8"),
        ("loading", "i8"),
        ("held", "i8"),
        ("admissions", "i8"),
        ("preemptions", "i8"),
        ("disturbed", "i8"),
        ("ahead", "i8"),
        ("late_blocks", "i8"),
        ("late_seats", "i8"),
        ("groups", "i8"),
        ("batch_divisor", "i8"),
        ("layer_budget", "i8"),
        ("chooser", "i8"),
        ("split_tbt_s", "f8"),
        ("foreign", "i8"),
        ("alive", "i8"),
        ("hash_tokens", "i8"),
        ("reused_tokens", "i8"),
        ("prefilled_tokens", "i8"),
        ("load_token_s", "f8"),
        ("load_disk_token_s", "f8"),
    ],
    align=True,
)
"""One record a replica: its limits, its KV counters (blocks) and the sizes of its lists (requests); ``disturbed`` says
that planning its present step had to preempt, or to do without what is late. On a replica that plans ``ahead`` the
``late_blocks`` and ``late_seats`` of requests that ended with the last step are no use to the next plan, which was made
before they ended."""

STEP = np.dtype(
    [
        ("items", "i8"),
        ("decodes", "i8"),
        ("context", "i8"),
        ("prompt_tokens", "i8"),
        ("pairs", "i8"),
        ("prefix", "i8"),
        ("rows", "i8"),
        ("longest", "i8"),
        ("prompts", "i8"),
    ],
    align=True,
)
"""One step being filled, or in flight: ``items`` rows of the item arrays and the sums that the cost model takes."""

SPLIT = np.dtype(
    [
        ("prefill_units", "i8"),
        ("decode_units", "i8"),
        ("prefill_flops", "f8"),
        ("prefill_weights", "f8"),
        ("prefill_kv", "f8"),
        ("decode_flops", "f8"),
        ("decode_weights", "f8"),
        ("decode_kv", "f8"),
        ("sizes", "i8"),
        ("size_at", "f8", (SIZES,)),
        ("size_speed", "f8", (SIZES,)),
    ],
    align=True,
)
"""One stream group of a multiplexed replica: units of both lanes and the speed of each lane on them.

Where the speed of prompts was measured by size, ``size_speed`` at ``sizes`` numbers of prompt tokens ``size_at`` stands
in the place of ``prefill_*``.
"""

POOL = np.dtype(
    [
        ("first", "i8"),
        ("count", "i8"),
        ("free", "i8"),
        ("head", "i8"),
        ("tail", "i8"),
        ("bins", "i8"),
        ("mask", "i8"),
    ],
    align=True,
)
"""One pool of identified blocks: its range, its least-recently-used list of free blocks and its hash bins."""

BLOCK = np.dtype(
    [("hash", "i8"), ("users", "i4"), ("previous", "i4"), ("next", "i4")],
    align=True,
)
"""One identified block: content hash (0 unknown), requests that use it, links of the free list."""

WAITING, LOADING, STARTED, DECODING, HELD, MOVING, DONE, REJECTED = range(8)
"""States of a request; HELD: prefilled, its KV waits for a decode replica; MOVING: its KV is on a link."""

REQUEST_LEVEL, PREFILL_FIRST, MIXED, CHUNKED, MULTIPLEXED, DECODE_ONLY, CUSTOM = range(7)
BY_BATCH, BY_TABLE, BY_TBT = range(3)
BOTH, PREFILL, DECODE = range(3)
FCFS, BY_PRIORITY, SHORT_FIRST = range(3)
POLICIES = ("request-level", "prefill-first", "mixed", "chunked", "multiplexed", "decode", "custom")
ROLES = ("both", "prefill", "decode")
ORDERS = ("fcfs", "priority", "short-first")
UNLIMITED = 1 << 40
NONE = -1


class Scheduler(NamedTuple):
    """All state. Shapes: requests [slots]; replicas, costs [replicas]; steps [replicas x lanes];

    item_slots, item_tokens [replicas x lanes, batch]; started, decoding [replicas, batch];
    splits, thresholds [replicas, groups]; pools [replicas x 3] (device, host, disk); blocks [all blocks];
    bins [all bins]; tables [all table entries]; hashes [all prefix hashes].
    """

    requests: np.recarray
    replicas: np.recarray
    costs: np.recarray
    steps: np.recarray
    item_slots: np.ndarray
    item_tokens: np.ndarray
    started: np.ndarray
    decoding: np.ndarray
    splits: np.recarray
    thresholds: np.ndarray
    pools: np.recarray
    blocks: np.recarray
    bins: np.ndarray
    tables: np.ndarray
    hashes: np.ndarray
    lanes: int


def records(dtype: np.dtype, *shape: int) -> np.recarray:
    """Zeroed record array of ``shape``."""
    return np.zeros(shape, dtype).view(np.recarray)


def _table() -> np.ndarray:
    return np.zeros((1, 1), np.int64)


SCHEDULER = reference_type(
    requests=records(REQUEST, 1),
    replicas=records(REPLICA, 1),
    costs=records(COST, 1),
    steps=records(STEP, 1),
    item_slots=_table(),
    item_tokens=_table(),
    started=_table(),
    decoding=_table(),
    splits=records(SPLIT, 1, 1),
    thresholds=_table(),
    pools=records(POOL, 1),
    blocks=records(BLOCK, 1),
    bins=np.zeros(1, np.int64),
    tables=np.zeros(1, np.int64),
    hashes=np.zeros(1, np.int64),
    lanes=1,
)
"""Numba type of a reference to a ``Scheduler``."""


@compiled
def _write(reference: Any, s: Scheduler) -> None:
    write_field(reference, "requests", s.requests)
    write_field(reference, "replicas", s.replicas)
    write_field(reference, "costs", s.costs)
    write_field(reference, "steps", s.steps)
    write_field(reference, "item_slots", s.item_slots)
    write_field(reference, "item_tokens", s.item_tokens)
    write_field(reference, "started", s.started)
    write_field(reference, "decoding", s.decoding)
    write_field(reference, "splits", s.splits)
    write_field(reference, "thresholds", s.thresholds)
    write_field(reference, "pools", s.pools)
    write_field(reference, "blocks", s.blocks)
    write_field(reference, "bins", s.bins)
    write_field(reference, "tables", s.tables)
    write_field(reference, "hashes", s.hashes)
    write_field(reference, "lanes", s.lanes)


def refer(s: Scheduler) -> Any:
    """What compiled functions take for ``s``: a reference, or ``s`` itself when nothing is compiled."""
    if numba.config.DISABLE_JIT:
        return s
    handle = Handle(SCHEDULER, s)
    _write(handle, s)
    return handle
