"""The log of an engine on its clock against a scheduler without one, made from the log alone: the same decisions."""

import json
import os

import numpy as np
import pytest
from fakes import CONTEXT, SIZE, VOCAB, Bench, Params
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.engine.decisions import read_events, workload_of
from twofold.engine.origin import Origin
from twofold.engine.replay import replay
from twofold.errors import SpecError

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
    return list(read_events(bench.log.getvalue().splitlines()))


@pytest.mark.parametrize("policy", EVERY)
@given(
    requests=st.lists(REQUEST, min_size=1, max_size=9), blocks=st.integers(10, 24), aborts=st.sets(st.integers(0, 8))
)
@settings(deadline=None, max_examples=7)
def test_a_scheduler_made_from_the_log_decides_the_same(policy, requests, blocks, aborts):
    events = served(policy, requests, blocks, aborts)
    replayed = replay(events)
    assert replayed.difference is None
    assert replayed.requests == len(requests)
    for kind, found in (("plan", replayed.plans), ("split", replayed.splits), ("end", replayed.steps)):
        assert found == sum(event["event"] == kind for event in events)


@pytest.fixture(scope="module")
def example():
    return served("1B,chunked=6", [(0, 20, 6, 1), (3, 15, 5, 2), (0, 20, 4, 0)], 12, set())


def changed(events, kind, which=0, **fields):
    """The events with fields of one changed, and its place."""
    place = [number for number, event in enumerate(events) if event["event"] == kind][which]
    return [*events[:place], events[place] | fields, *events[place + 1 :]], place


def test_a_log_says_what_made_it(example):
    replayed = replay(example)
    assert (replayed.policy, replayed.model, replayed.blocks) == ("chunked", "tiny", 12)


def test_another_policy_decides_otherwise(example):
    other, _ = changed(example, "start", group=example[0]["group"] | {"budget_tokens": 7})
    difference = replay(other).difference
    assert difference.what == "a step of lane 0"
    assert difference.logged == "item 0: request 0 computes 6 prompt tokens"
    assert difference.decided == "item 0: request 0 computes 7 prompt tokens"


@pytest.mark.parametrize("which", [0, 3, 9])
def test_a_changed_step_is_found_at_its_event(example, which):
    events, place = changed(example, "plan", which, items=[[0, 5]])
    found = replay(events)
    assert found.difference.event == place
    assert found.plans == which + 1


def test_an_end_that_was_none_is_found(example):
    place = next(number for number, event in enumerate(example) if event["event"] == "end" and event["last"])
    events = [*example[:place], example[place] | {"last": []}, *example[place + 1 :]]
    difference = replay(events).difference
    assert difference is None or difference.event >= place


@pytest.mark.parametrize("policy", [pytest.param("1B,multiplexed=1:1", marks=LANES)])
def test_a_changed_split_is_found(policy):
    events, place = changed(served(policy, [(0, 20, 6, 1), (3, 15, 5, 2)], 24, set()), "split", 0, units=[9, 9])
    assert replay(events).difference.event == place


IMPOSSIBLE = [
    ("arrive", {"request": 0, "prompt": 10**6}),
    ("arrive", {"ids": [-1]}),
    ("arrive", {"ids": [7] * 100}),
    ("plan", {"lane": 5}),
    ("end", {"lane": 1}),
    ("end", {"last": [77]}),
    ("end", {"ids": [[77, 1]]}),
    ("end", {"ids": [3]}),
]


@pytest.mark.parametrize(("kind", "fields"), IMPOSSIBLE)
def test_what_cannot_have_happened_is_refused(example, kind, fields):
    events, place = changed(example, kind, **fields)
    with pytest.raises(SpecError, match=f"line {place + 1}"):
        replay(events)


@pytest.mark.parametrize(
    "fields",
    [
        {"model": {"name": "x"}},
        {"group": None},
        {"blocks": -1},
        {"cost": {"speed": 1.0}},
        {"cost": {"flop_rate": [1, 2]}},
        {"requests": 1 << 40},
        {"hash_tokens": 99},
        {"tbt_s": "soon"},
    ],
)
def test_a_start_that_makes_no_scheduler_is_refused(example, fields):
    with pytest.raises(SpecError):
        replay([example[0] | fields, *example[1:]])


def test_a_start_of_several_replicas_is_refused(example):
    with pytest.raises(SpecError, match="one replica"):
        replay([example[0] | {"group": example[0]["group"] | {"count": 3600}}, *example[1:]])


def test_the_start_makes_the_same_scheduler_again(example):
    origin = Origin.read(json.loads(json.dumps(example[0])))
    assert origin.fields() == {name: example[0][name] for name in origin.fields()}


def test_time_is_counted_by_kind(example):
    spent = replay(example).spent
    ends = [event["seconds"] for event in example if event["event"] == "end"]
    assert sum(times.steps for times in spent.steps().values()) == len(ends)
    assert sum(times.total_s for times in spent.steps().values()) == pytest.approx(sum(ends))
    own = sum(event.get("scheduler_s", 0.0) for event in example)
    assert spent.scheduler().total_s == pytest.approx(own)
    assert spent.scheduler_share() == pytest.approx(own / (own + sum(ends)))


def test_the_log_says_what_arrived(example):
    workload = workload_of(example).validate()
    assert workload.prompt_tokens.tolist() == [20, 15, 20]
    assert workload.output_tokens.tolist() == [6, 5, 4]
    assert workload.hash_tokens == SIZE
    assert (np.diff(workload.arrival_s) > 0).all()
    first, _, third = np.split(workload.hash_ids, workload.hash_start[1:-1])
    assert first[:5].tolist() == third[:5].tolist()
    assert max(workload.prompt_tokens + workload.output_tokens) <= CONTEXT


START = '{"event":"start","version":2,"hash_tokens":4,"blocks":1}'


@pytest.mark.parametrize(
    "lines",
    [
        ["{"],
        [],
        ["3"],
        ['{"event":"plan"}'],
        ['{"event":"start","version":0}'],
        [START, START],
        [START, '{"event":"walk"}'],
        [START, '{"event":"leave","request":true,"at":1}'],
        [START, '{"event":"leave","request":1,"at"'],
    ],
)
def test_what_is_no_log_is_refused(lines):
    with pytest.raises(SpecError, match="decision log"):
        list(read_events(lines))


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("arrive", {"priority": 2**70}),
        ("arrive", {"prompt": 2**63}),
        ("arrive", {"at": float("nan")}),
        ("end", {"at": float("inf")}),
        ("end", {"seconds": float("-inf")}),
    ],
)
def test_numbers_that_no_engine_writes_are_refused(example, kind, fields):
    events, place = changed(example, kind, **fields)
    lines = [json.dumps(event) for event in events]
    with pytest.raises(SpecError, match=f"line {place + 1}, {kind}.{next(iter(fields))}"):
        list(read_events(lines))


def test_a_log_without_arrivals_is_no_workload():
    with pytest.raises(SpecError, match="at least one request"):
        workload_of(read_events([START]))


def test_a_log_is_read_as_it_is_replayed(example):
    """No line is taken before the one ahead of it has been used: a long log needs no more memory than a short one."""
    taken = []

    def lines():
        for event in example:
            taken.append(event["event"])
            yield json.dumps(event)

    events = read_events(lines())
    next(events)
    assert taken == ["start"]
    next(events)
    assert len(taken) == 2
