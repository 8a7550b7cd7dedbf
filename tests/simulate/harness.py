"""Small runs and what is asked of every one of them."""

import hashlib
from collections.abc import Iterator
from typing import Any

import numba
import numpy as np

import twofold
from twofold.scheduler.blocks import TIERS
from twofold.scheduler.service import compiled_fill
from twofold.scheduler.state import DECODING, HELD, LOADING, MOVING, STARTED
from twofold.simulate import loop
from twofold.simulate import run as running
from twofold.simulate.result import Result
from twofold.simulate.state import FINISHED, FULL, Simulation, refer
from twofold.spec import catalog
from twofold.spec.deployment import Deployment
from twofold.spec.slo import Slo
from twofold.spec.synthetic import Synthetic
from twofold.spec.workload import Workload

SLO = "ttft<=1s, tpot<=30ms"
PHASES = ("queued_s", "prefill_s", "stall_s", "transfer_s", "slot_s", "decode_s")
INSTANTS = ("start", "first_token", "kv_arrived", "first_decode", "finish", "last_token", "max_gap")
HOLDING = (LOADING, STARTED, DECODING, HELD, MOVING)
MODEL, DEVICE = "llama-3-8b", "H100"
KV_BYTES = 131072
SCARCE = "memory=0.21"
"""About 5,600 KV tokens beside the weights."""
TINY = "memory=0.204"
"""About 2,000 KV tokens."""


def deploy(text: str, **options: Any) -> Deployment:
    return twofold.deployment(text, **{"model": MODEL, "device": DEVICE} | options)


def draw(requests: int, rate: float = 30.0, seed: int = 0, **options: Any) -> Workload:
    lengths = {"prompt": "lognormal:700:0.8", "output": "lognormal:40:0.8"}
    return Synthetic(requests=requests, rate=rate, seed=seed, **lengths | options).workload()


def listed(*rows: tuple[float, int, int], **options: Any) -> Workload:
    """A workload of (arrival, prompt, output) rows."""
    arrival, prompt, output = (np.array(column) for column in zip(*rows, strict=True))
    return Workload("listed", arrival, prompt, output, **options)


def run(text: str, workload: Workload, *, step_by_step: bool = False, timeline: bool = False, **options: Any) -> Result:
    return twofold.simulate(workload, deploy(text, **options), SLO, step_by_step=step_by_step, timeline=timeline)


def gaps(result: Result) -> np.ndarray:
    """Every token gap of the run, sorted."""
    terms = [np.repeat(np.linspace(g.first, g.last, g.count), g.weight) for g in result.gaps]
    return np.sort(np.concatenate(terms)) if terms else np.zeros(0)


def digest(result: Result) -> str:
    return hashlib.sha256(result._sim.life.tobytes() + result.gaps.tobytes()).hexdigest()


def steps(result: Result) -> np.recarray:
    """The lines of the timeline that are steps."""
    lines = result._sim.log[: result._sim.control[0].logs]
    return lines[lines.kind == 0]


def pauses(workload: Workload, deployment: Deployment, events: int) -> Iterator[Simulation]:
    """The state of a run after every so many events, and at its end."""
    model = catalog.model(MODEL)
    sim = running.build(workload, deployment, model, Slo.parse(SLO), None, deployment.seed)
    sim.control[0].fast = 1
    run_events: Any = loop.run_events
    custom = running._custom(deployment)
    if not numba.config.DISABLE_JIT:
        run_events, custom = running._compiled_loop(), compiled_fill(custom)
    status, state = None, refer(sim)
    while status != FINISHED:
        status = run_events(state, custom, events)
        if status == FULL:
            sim = running._grown(sim)
            state = refer(sim)
        yield sim


def assert_blocks_conserved(sim: Simulation) -> None:
    s, n = sim.scheduler, int(sim.control[0].requests)
    held = np.zeros(len(s.replicas), np.int64)
    users: dict[int, int] = {}
    for slot, request in enumerate(s.requests):
        if request.blocks == 0:
            continue
        assert request.state in HOLDING, (slot, request.state)
        r = int(sim.life[slot % n].decoder if slot >= n else request.replica)
        held[r] += request.blocks
        if s.replicas[r].identified:
            for block in s.tables[request.table : request.table + request.blocks]:
                users[int(block)] = users.get(int(block), 0) + 1
    for r, replica in enumerate(s.replicas):
        if replica.identified:
            assert_pool_consistent(sim, r, users)
        else:
            assert replica.free_blocks + held[r] == replica.total_blocks


def assert_pool_consistent(sim: Simulation, r: int, users: dict[int, int]) -> None:
    s = sim.scheduler
    pool = s.pools[r * TIERS]
    blocks = range(int(pool.first), int(pool.first + pool.count))
    free, block = set(), int(pool.head)
    while block >= 0:
        assert block not in free
        free.add(block)
        block = int(s.blocks[block].next)
    assert len(free) == pool.free == s.replicas[r].free_blocks
    for block in blocks:
        assert s.blocks[block].users == users.get(block, 0)
        assert (block in free) == (s.blocks[block].users == 0)
    bins = s.bins[pool.bins : pool.bins + pool.mask + 1]
    assert sorted(bins[bins >= 0]) == [block for block in blocks if s.blocks[block].hash != 0]


def assert_complete(result: Result) -> None:
    """All requests ended, all tokens made, time divided, all memory and accounts back to nothing."""
    sim, done = result._sim, result.completed
    outputs = result.workload.output_tokens[done]
    assert done.sum() + sim.control[0].rejected == len(result)
    assert int((result.gaps.count * result.gaps.weight).sum()) == int((outputs - 1).sum())
    assert_time_divided(result)
    replicas = sim.scheduler.replicas
    assert np.array_equal(replicas.free_blocks, replicas.total_blocks)
    for count in ("started", "decoding", "waiting", "held", "loading", "foreign"):
        assert not replicas[count].any(), count
    for account in ("requests", "prefill_tokens", "tokens", "blocks"):
        assert not sim.routes[account].any(), account
    assert sim.control[0].flows == 0


def assert_time_divided(result: Result) -> None:
    life, done = result._sim.life, result.completed
    divided = sum(life[phase] for phase in PHASES)
    np.testing.assert_allclose(divided[done], result.e2e_s[done], rtol=0, atol=1e-9)
    assert min(life[phase].min() for phase in PHASES) >= -1e-9


def assert_same_run(one: Result, other: Result) -> None:
    """Equal to the last bit but for sums that are added in another order."""
    for instant in INSTANTS:
        np.testing.assert_array_equal(one._sim.life[instant], other._sim.life[instant], err_msg=instant)
    for phase in PHASES:
        np.testing.assert_allclose(one._sim.life[phase], other._sim.life[phase], rtol=0, atol=1e-9, err_msg=phase)
    np.testing.assert_allclose(gaps(one), gaps(other), rtol=0, atol=1e-12)
