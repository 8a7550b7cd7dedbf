"""``simulate``: a workload on a deployment, from the first arrival to the last token."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np
from numba import types

from twofold.compiled import compiled_as
from twofold.cost.contract import CostModel
from twofold.errors import SpecError
from twofold.scheduler.policies import FILL, custom_policy
from twofold.scheduler.service import compiled_fill
from twofold.scheduler.state import NONE, records
from twofold.simulate import loop
from twofold.simulate.build import build_routes, build_scheduler, members_of
from twofold.simulate.closed import as_arrived, check_closed, close_loop
from twofold.simulate.events import push
from twofold.simulate.lines import LOG, SAMPLE
from twofold.simulate.outages import fault_schedule
from twofold.simulate.result import Result
from twofold.simulate.rules import RULE
from twofold.simulate.state import (
    CONTROL,
    EVENT,
    FAULT_BEGINS,
    FINISHED,
    FLOW,
    FULL,
    LANE,
    LIFE,
    PORT,
    RUN,
    SIMULATION,
    STATION,
    Simulation,
    refer,
)
from twofold.spec import catalog
from twofold.spec.deployment import Deployment
from twofold.spec.model import Model
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload

Progress = Callable[[int, int, str], None]
EVENTS_A_CALL = 200_000
SAMPLES = 400
SMALL_FLEET = 4


def simulate(
    workload: Workload,
    deployment: Deployment,
    slo: Slo | str | None = None,
    *,
    seed: int | None = None,
    roofline: CostModel | None = None,
    timeline: bool = False,
    step_by_step: bool = False,
    rules: np.recarray | None = None,
    concurrency: int | None = None,
    progress: Progress | None = None,
) -> Result:
    """Run ``workload`` on ``deployment`` and measure everything.

    ``seed`` (default: the deployment's) drives random routing and faults at a rate; the same seed gives the same result
    bit for bit. ``timeline`` keeps every step for ``Result.write_timeline``. ``step_by_step`` handles each decode step
    as an event of its own (slow; the result is the same). The run stops once one of ``rules`` (see
    ``rules_of``) is certainly broken; ``Result.stopped`` then says so. With a ``concurrency`` the times of arrival are
    not those of the workload: so many requests are under way, in its order, and each next one arrives when one of them
    ends. ``progress(done, total, text)`` is called now and then.
    Raises SpecError for a model that does not fit, and for what the deployment cannot do.
    """
    limits = Slo.parse(slo) if slo is not None else None
    if concurrency is not None:
        check_closed(concurrency, deployment)
    model = catalog.model(deployment.model)
    sim = build(workload, deployment, model, limits, roofline, deployment.seed if seed is None else seed)
    sim.control[0].logging, sim.control[0].fast = timeline, not step_by_step
    if rules is not None:
        sim = sim._replace(rules=rules)
    if concurrency is not None:
        close_loop(sim, concurrency)
    sim = _run(sim, _custom(deployment), progress)
    if concurrency is not None:
        workload = as_arrived(sim, workload)
    return Result(sim, workload, deployment, model, limits, concurrency, roofline)


def build(
    workload: Workload,
    deployment: Deployment,
    model: Model,
    slo: Slo | None,
    roofline: CostModel | None,
    seed: int,
) -> Simulation:
    """The arrays of one run."""
    if len(workload) == 0:
        raise SpecError("workload", workload.name, "accepted: at least one request")
    members, n = members_of(deployment), len(workload)
    tbt_limit = None if slo is None else slo.tbt_s or slo.tpot_s
    s = build_scheduler(workload, deployment, model, roofline, tbt_limit)
    count, roles = len(members), s.replicas.home_role
    routes, router = build_routes(deployment, count)
    sim = Simulation(
        scheduler=s,
        life=_lives(n),
        lanes=records(LANE, count * s.lanes),
        stations=records(STATION, count),
        stage_free=np.zeros((count, max(member.group.pp for member in members))),
        routes=routes,
        router=router,
        entry=np.flatnonzero(roles != 2).astype(np.int64),
        exit=np.flatnonzero(roles == 2).astype(np.int64),
        arrivals=workload.arrival_s.copy(),
        flows=records(FLOW, 4 * s.item_slots.shape[1] + 256),
        ports=_ports(deployment, count),
        heap=records(EVENT, 8 * s.item_slots.shape[1] + 4 * count + 256),
        runs=records(RUN, 4 * n + 8 * s.item_slots.shape[1] + 256),
        log=records(LOG, 8 * s.item_slots.shape[1] + 256),
        samples=records(SAMPLE, SAMPLES),
        faults=fault_schedule(deployment, workload, seed),
        rules=records(RULE, 0),
        control=records(CONTROL, 1),
    )
    sim.stations.pull_head = sim.stations.pull_tail = NONE
    sim.stations.inbox_head = sim.stations.inbox_tail = NONE
    sim.lanes.flops = sim.lanes.weights = sim.lanes.kv = sim.lanes.stretch = 1.0
    _fill_control(sim, workload, deployment, model, seed)
    for index, fault in enumerate(sim.faults):
        push(refer(sim), float(fault.time), FAULT_BEGINS, index, 0)
    return sim


def _lives(n: int) -> np.recarray:
    life = records(LIFE, n)
    for column in ("start", "first_token", "kv_arrived", "first_decode", "finish", "last_token"):
        life[column] = np.nan
    life.prefiller = life.decoder = life.next = NONE
    return life


def _ports(deployment: Deployment, count: int) -> np.recarray:
    ports = records(PORT, 2 * count + 1)
    ports.up = 1
    for r, member in enumerate(members_of(deployment)):
        link = catalog.link(deployment.link or member.device.inter_link)
        devices = member.group.tp * member.group.pp if deployment.link_per == "device" else 1
        ports.capacity[[r, count + r]] = link.effective * devices
    ports[-1].capacity = deployment.fabric_bytes_per_s or np.inf
    return ports


def _fill_control(sim: Simulation, workload: Workload, deployment: Deployment, model: Model, seed: int) -> None:
    control, members = sim.control[0], members_of(deployment)
    control.requests = control.released = len(workload)
    control.random = seed * 1_000_003 % 2_147_483_646 + 1
    control.latency_s = catalog.link(deployment.link or members[0].device.inter_link).latency_s
    control.kv_bytes = model.kv_bytes_per_token
    control.push, control.layerwise = deployment.transfer == "push", deployment.layerwise
    control.choose_early = deployment.decode_choice == "at-arrival"
    control.mixed_pool, control.mixed_tokens = deployment.mixed_pool, deployment.mixed_prompt_tokens
    control.orphans = control.orphan_tail = NONE
    control.look_ahead = len(members) > SMALL_FLEET
    control.sample_every = max(workload.span_s, 1e-3) * 1.02 / SAMPLES
    control.next_sample = float(workload.arrival_s[0])


def _custom(deployment: Deployment) -> Any:
    names = {group.policy for group in deployment.groups}
    registered = [name for name in sorted(names) if name and custom_policy(name) is not None]
    if len(registered) > 1:
        raise SpecError("policy", registered, "accepted: one policy of your own a deployment")
    return custom_policy(registered[0] if registered else "")


@cache
def _compiled_loop() -> Any:
    return compiled_as(types.int64(SIMULATION, FILL, types.int64))(loop.run_events)


def _run(sim: Simulation, custom: Any, progress: Progress | None) -> Simulation:
    run_events: Any = loop.run_events
    if not numba.config.DISABLE_JIT:
        run_events, custom = _compiled_loop(), compiled_fill(custom)
    state = refer(sim)
    total = int(sim.control[0].requests)
    while True:
        status = run_events(state, custom, EVENTS_A_CALL)
        if progress is not None:
            progress(int(sim.control[0].ended), total, f"{sim.control[0].now:.0f} s simulated")
        if status == FINISHED:
            return sim
        if status == FULL:
            sim = _grown(sim)
            state = refer(sim)


def _grown(sim: Simulation) -> Simulation:
    """The same state with larger buffers where they are nearly full."""
    control, batch = sim.control[0], sim.scheduler.item_slots.shape[1]
    longest = int(sim.lanes.steps.max(initial=0))
    burst = 4 * int(control.next_arrival - control.ended) + len(sim.stations) + int(control.flows)
    used = {
        "heap": control.events + burst,
        "runs": control.runs + longest + burst,
        "log": control.logs + control.flows,
        "flows": control.flows,
    }
    larger: dict[str, Any] = {}
    for name, count in used.items():
        buffer = getattr(sim, name)
        needed = int(count) + 4 * batch + 128
        if needed >= len(buffer):
            larger[name] = records(buffer.dtype, max(2 * len(buffer), 2 * needed))
            larger[name][: len(buffer)] = buffer
    return sim._replace(**larger)
