"""What the simulated clock adds to the scheduler's state: times, events, links, and what is measured.

A request has one slot where it is prefilled (``i``) and, in a deployment with decode replicas, a twin where it is
decoded (``requests + i``): two schedulers know it, each by its own blocks.
"""

from typing import Any, NamedTuple

import numba
import numpy as np

from twofold.compiled import compiled
from twofold.reference import Handle, reference_type, write_field
from twofold.scheduler.routing import ROUTE, ROUTER
from twofold.scheduler.state import SCHEDULER, Scheduler, records
from twofold.scheduler.state import refer as refer_scheduler
from twofold.simulate.lines import LOG, SAMPLE
from twofold.simulate.rules import RULE

LIFE = np.dtype(
    [
        ("start", "f8"),
        ("first_token", "f8"),
        ("kv_arrived", "f8"),
        ("first_decode", "f8"),
        ("finish", "f8"),
        ("last_token", "f8"),
        ("max_gap", "f8"),
        ("since", "f8"),
        ("queued_s", "f8"),
        ("prefill_s", "f8"),
        ("stall_s", "f8"),
        ("transfer_s", "f8"),
        ("slot_s", "f8"),
        ("decode_s", "f8"),
        ("phase", "i4"),
        ("prefiller", "i4"),
        ("decoder", "i4"),
        ("granted", "i4"),
        ("asked", "i4"),
        ("flows", "i4"),
        ("sent", "i4"),
        ("chunk", "i4"),
        ("prefilling", "i4"),
        ("preemptions_seen", "i4"),
        ("retries", "i4"),
        ("lost", "i4"),
        ("broken", "i8"),
        ("next", "i8"),
    ],
    align=True,
)
"""The life of a request. Times in seconds (NaN: never); ``since`` is how far it has been accounted for, and the six
``*_s`` sums divide it without remainder. ``sent`` tokens of KV have been put on a link, ``chunk`` is what a layer-wise
flow sends of the chunk in flight, ``next`` links the queue of those that a decode replica has not granted room yet."""

LANE = np.dtype(
    [
        ("start", "f8"),
        ("end", "f8"),
        ("free", "f8"),
        ("steps", "i8"),
        ("version", "i8"),
        ("busy", "i8"),
        ("woken", "i8"),
        ("layers_left", "i8"),
        ("stretch", "f8"),
        ("flops", "f8"),
        ("weights", "f8"),
        ("kv", "f8"),
    ],
    align=True,
)
"""A stream of steps of a replica: the run in flight (``steps`` of them), and the speed that it has. ``free`` is when
the layers launched so far on a prefill lane are done."""

STATION = np.dtype(
    [
        ("busy_s", "f8"),
        ("joules", "f8"),
        ("steps", "i8"),
        ("decode_tokens", "i8"),
        ("kv_token_s", "f8"),
        ("pull_head", "i8"),
        ("pull_tail", "i8"),
        ("pulls", "i8"),
        ("inbox_head", "i8"),
        ("inbox_tail", "i8"),
        ("load_free", "f8"),
        ("peak_blocks", "i8"),
        ("switches", "i8"),
        ("failures", "i8"),
        ("down", "i8"),
        ("down_since", "f8"),
        ("down_s", "f8"),
        ("group", "i8"),
        ("adjust", "i8"),
    ],
    align=True,
)
"""What is measured of a replica, its queue of requests that wait for room (``pull_*``), and those that its scheduler
has not been told of yet (``inbox_*``)."""

FLOW = np.dtype(
    [
        ("slot", "i8"),
        ("source", "i8"),
        ("target", "i8"),
        ("bytes", "f8"),
        ("left", "f8"),
        ("rate", "f8"),
        ("cap", "f8"),
        ("credit", "f8"),
        ("until", "f8"),
        ("finish", "f8"),
        ("start", "f8"),
        ("frozen", "i8"),
    ],
    align=True,
)
"""KV on its way: ``left`` of ``bytes``, at ``rate`` bytes/s. A layer-wise flow is made at ``cap`` bytes/s ``until``
its step ends; ``credit`` bytes are made and not sent."""

PORT = np.dtype(
    [
        ("capacity", "f8"),
        ("up", "i8"),
        ("sent", "f8"),
        ("room", "f8"),
        ("users", "i8"),
        ("flows", "i8"),
        ("busy_s", "f8"),
    ],
    align=True,
)
"""A point that flows cross (egress of replica r: r; ingress: replicas + r; trunk: the last), bytes/s."""

EVENT = np.dtype([("time", "f8"), ("order", "i8"), ("kind", "i8"), ("who", "i8"), ("version", "i8")], align=True)
RUN = np.dtype([("first", "f8"), ("last", "f8"), ("count", "i8"), ("weight", "i8")], align=True)
"""``count`` token gaps in arithmetic progression from ``first`` to ``last`` seconds, each seen ``weight`` times."""

CONTROL = np.dtype(
    [
        ("now", "f8"),
        ("next_arrival", "i8"),
        ("released", "i8"),
        ("requests", "i8"),
        ("ended", "i8"),
        ("events", "i8"),
        ("order", "i8"),
        ("runs", "i8"),
        ("logs", "i8"),
        ("logging", "i8"),
        ("samples", "i8"),
        ("sample_every", "f8"),
        ("next_sample", "f8"),
        ("random", "i8"),
        ("flows", "i8"),
        ("net_version", "i8"),
        ("net_time", "f8"),
        ("latency_s", "f8"),
        ("kv_bytes", "f8"),
        ("push", "i8"),
        ("layerwise", "i8"),
        ("choose_early", "i8"),
        ("mixed_pool", "i8"),
        ("mixed_tokens", "i8"),
        ("orphans", "i8"),
        ("orphan_tail", "i8"),
        ("look_ahead", "i8"),
        ("transfers", "i8"),
        ("transferred", "f8"),
        ("faults", "i8"),
        ("reprefilled", "i8"),
        ("resumed", "i8"),
        ("steps", "i8"),
        ("fast", "i8"),
        ("rejected", "i8"),
        ("borrowed", "i8"),
        ("hopeless", "i8"),
    ],
    align=True,
)
"""Scalars of the event loop; one record. ``orphans`` heads the queue of requests for which no replica is alive. The
first ``released`` requests have a time of arrival; in a closed loop each of the others gets one when an earlier one
ends."""

FAULT = np.dtype([("time", "f8"), ("for_s", "f8"), ("target", "i8"), ("link", "i8"), ("kept", "i8")], align=True)

QUEUED, RUNNING, WAITS_FOR_SLOT, ON_LINK = range(4)
STEP_END, STAGE_FREE, WAKE, LOADED, NETWORK, FLOW_START, KV_ARRIVED, FAULT_BEGINS, FAULT_ENDS = range(9)
FINISHED, PAUSED, FULL = range(3)


class Simulation(NamedTuple):
    """Everything that the event loop reads and writes. Shapes: life [requests]; lanes [replicas x lanes];

    stations, routes [replicas]; stage_free [replicas, stages]; ports [2 x replicas + 1]; entry, exit: indices of the
    replicas that prefill and that decode; the rest are growing buffers whose used length is in ``control``.
    """

    scheduler: Scheduler
    life: np.recarray
    lanes: np.recarray
    stations: np.recarray
    stage_free: np.ndarray
    routes: np.recarray
    router: np.recarray
    entry: np.ndarray
    exit: np.ndarray
    arrivals: np.ndarray
    flows: np.recarray
    ports: np.recarray
    heap: np.recarray
    runs: np.recarray
    log: np.recarray
    samples: np.recarray
    faults: np.recarray
    rules: np.recarray
    control: np.recarray


SIMULATION = reference_type(
    scheduler=SCHEDULER,
    life=records(LIFE, 1),
    lanes=records(LANE, 1),
    stations=records(STATION, 1),
    stage_free=np.zeros((1, 1)),
    routes=records(ROUTE, 1),
    router=records(ROUTER, 1),
    entry=np.zeros(1, np.int64),
    exit=np.zeros(1, np.int64),
    arrivals=np.zeros(1),
    flows=records(FLOW, 1),
    ports=records(PORT, 1),
    heap=records(EVENT, 1),
    runs=records(RUN, 1),
    log=records(LOG, 1),
    samples=records(SAMPLE, 1),
    faults=records(FAULT, 1),
    rules=records(RULE, 1),
    control=records(CONTROL, 1),
)
"""Numba type of a reference to a ``Simulation``."""


@compiled
def _write(reference: Any, scheduler: Any, sim: Any) -> None:
    write_field(reference, "scheduler", scheduler)
    write_field(reference, "life", sim.life)
    write_field(reference, "lanes", sim.lanes)
    write_field(reference, "stations", sim.stations)
    write_field(reference, "stage_free", sim.stage_free)
    write_field(reference, "routes", sim.routes)
    write_field(reference, "router", sim.router)
    write_field(reference, "entry", sim.entry)
    write_field(reference, "exit", sim.exit)
    write_field(reference, "arrivals", sim.arrivals)
    write_field(reference, "flows", sim.flows)
    write_field(reference, "ports", sim.ports)
    write_field(reference, "heap", sim.heap)
    write_field(reference, "runs", sim.runs)
    write_field(reference, "log", sim.log)
    write_field(reference, "samples", sim.samples)
    write_field(reference, "faults", sim.faults)
    write_field(reference, "rules", sim.rules)
    write_field(reference, "control", sim.control)


def refer(sim: Simulation) -> Any:
    """What the compiled event loop takes for ``sim``: a reference, or ``sim`` itself when nothing is compiled."""
    if numba.config.DISABLE_JIT:
        return sim
    scheduler = refer_scheduler(sim.scheduler)
    handle = Handle(SIMULATION, (sim, scheduler))
    _write(handle, scheduler, sim)
    return handle
