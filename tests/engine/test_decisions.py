"""The log of an engine on its clock against the scheduler of the simulator without one: the same decisions."""

import json
import os

import numpy as np
import pytest
from fakes import CONTEXT, MODEL, SIZE, VOCAB, Bench, Params, device
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.engine.decisions import read_events, workload_of
from twofold.engine.replay import Replay
from twofold.errors import SpecError
from twofold.scheduler.state import NONE
from twofold.simulate.build import build_scheduler
from twofold.spec.deployment import Deployment

ENOUGH = hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) >= 2
LANES = pytest.mark.skipif(not ENOUGH, reason="lanes need two cores")
EVERY = [
    "1B,request-level",
    "1B,prefill-first,decode-every=3",
    "1B,mixed,order=short-first",
    "1B,chunked=6,prefill-every=2",
    "1B,chunked=510us,order=priority",
    "1B,chunked=7,reserve",
    "1B,mixed,no-prefix",
    pytest.param("1B,multiplexed,layer-budget=8", marks=LANES),
    pytest.param("1B,multiplexed=1:1", marks=LANES),
    pytest.param("1B,multiplexed=slo,tbt=10ms", marks=LANES),
]
REQUEST = st.tuples(st.sampled_from([0, 3, 40]), st.integers(1, 25), st.integers(1, 12), st.integers(0, 4))


def served(policy, requests, blocks, aborts):
    """The events of an engine that was given these (first token, prompt, output, pause in steps)."""
    bench = Bench(f"{policy},batch=4", blocks, eos=5)
    for number, (first, length, most, pause) in enumerate(requests):
        prompt = [(first + 5 * i) % VOCAB for i in range(length)]
        bench.engine.add(str(number), prompt, Params(most, stop_ids=(11, 13)), priority=number % 3)
        for _ in range(pause):
            bench.step()
        if number in aborts:
            bench.engine.abort(str(number // 2))
    bench.drain()
    bench.engine.close()
    return bench.group, read_events(bench.log.getvalue().splitlines())


def simulated(group, events):
    """The arrays that the simulator makes for the logged requests, with the KV blocks of the log."""
    place = device()
    sized = place.model_copy(update={"memory": 10**9})
    deployment = Deployment(model=MODEL, device=sized, groups=(group,))
    s = build_scheduler(workload_of(events), deployment, MODEL, None, None)
    blocks = events[0]["blocks"]
    s.replicas[0].total_blocks = s.replicas[0].free_blocks = blocks
    if s.replicas[0].identified:
        pool = s.pools[0]
        pool.count = pool.free = blocks
        pool.tail = pool.first + blocks - 1
        s.blocks[pool.tail].next = NONE
    return s


@pytest.mark.parametrize("policy", EVERY)
@given(
    requests=st.lists(REQUEST, min_size=1, max_size=9), blocks=st.integers(10, 24), aborts=st.sets(st.integers(0, 8))
)
@settings(deadline=None, max_examples=7)
def test_the_simulators_scheduler_decides_the_same(policy, requests, blocks, aborts):
    group, events = served(policy, requests, blocks, aborts)
    replayed = Replay(simulated(group, events), group.policy).run(events)
    assert replayed.difference is None
    assert replayed.plans == sum(event["event"] == "plan" for event in events)
    assert replayed.splits == sum(event["event"] == "split" for event in events)


@pytest.fixture(scope="module")
def example():
    return served("1B,chunked=6", [(0, 20, 6, 1), (3, 15, 5, 2), (0, 20, 4, 0)], 12, set())


def test_another_policy_decides_otherwise(example):
    _, events = example
    other, _ = served("1B,chunked=7", [(0, 1, 1, 0)], 12, set())
    replayed = Replay(simulated(other, events), other.policy).run(events)
    assert "items of lane 0" in replayed.difference


@pytest.mark.parametrize(
    "change", [{"event": "plan", "field": "items", "to": [[0, 5]]}, {"event": "start", "field": "blocks", "to": 13}]
)
def test_a_changed_decision_is_found(example, change):
    group, events = example
    s = simulated(group, events)
    changed = [dict(event) for event in events]
    next(event for event in changed if event["event"] == change["event"])[change["field"]] = change["to"]
    assert Replay(s, group.policy).run(changed).difference.startswith("event ")


def test_the_log_says_what_arrived(example):
    _, events = example
    workload = workload_of(events).validate()
    assert workload.prompt_tokens.tolist() == [20, 15, 20]
    assert workload.output_tokens.tolist() == [6, 5, 4]
    assert workload.hash_tokens == SIZE
    assert (np.diff(workload.arrival_s) > 0).all()
    first, _, third = np.split(workload.hash_ids, workload.hash_start[1:-1])
    assert first[:5].tolist() == third[:5].tolist()
    assert max(workload.prompt_tokens + workload.output_tokens) <= CONTEXT


@pytest.mark.parametrize("lines", [["{"], [], ['{"event":"plan"}'], ['{"event":"start","version":0}']])
def test_what_is_no_log_is_refused(lines):
    with pytest.raises(SpecError, match="decision log"):
        read_events(lines)


def test_a_log_without_arrivals_is_no_workload():
    start = json.dumps({"event": "start", "version": 1, "blocks": 1, "hash_tokens": 4})
    with pytest.raises(SpecError, match="at least one request"):
        workload_of(read_events([start]))
