"""The log of an engine against the event loop of the simulator, on the times of the log: the same decisions."""

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))
from fakes import Bench, Decoder, Params
from test_decisions import EVERY, LANES, REQUEST, changed, served

from twofold.clocks.replay import replay_simulated
from twofold.engine.decisions import read_events, workload_of
from twofold.errors import SpecError


def replayed(events):
    return replay_simulated(events[0], workload_of(events), events[1:])


@pytest.mark.parametrize("policy", EVERY)
@given(
    requests=st.lists(REQUEST, min_size=1, max_size=9), blocks=st.integers(10, 24), aborts=st.sets(st.integers(0, 8))
)
@settings(deadline=None, max_examples=7)
def test_the_event_loop_decides_the_same(policy, requests, blocks, aborts):
    events = served(policy, requests, blocks, aborts)
    found = replayed(events)
    assert found.difference is None
    assert found.requests == len(requests)
    for kind, count in (("plan", found.plans), ("split", found.splits), ("end", found.steps)):
        assert count == sum(event["event"] == kind for event in events)


@pytest.fixture(scope="module")
def example():
    return served("1B,chunked=6", [(0, 20, 6, 1), (3, 15, 5, 2), (0, 20, 4, 0)], 12, set())


def test_another_policy_decides_otherwise(example):
    other, _ = changed(example, "start", group=example[0]["group"] | {"budget_tokens": 7})
    difference = replayed(other).difference
    assert difference.logged == "item 0: request 0 computes 6 prompt tokens"
    assert difference.decided == "item 0: request 0 computes 7 prompt tokens"


@pytest.mark.parametrize("which", [0, 3, 9])
def test_a_changed_step_is_found_at_its_event(example, which):
    events, place = changed(example, "plan", which, items=[[0, 5]])
    assert replayed(events).difference.event == place


def test_an_end_before_its_time_is_found(example):
    place = [number for number, event in enumerate(example) if event["event"] == "end"][2]
    events, place = changed(example, "end", 2, last=[0])
    assert replayed(events).difference.event >= place


@pytest.mark.parametrize("policy", [pytest.param("1B,multiplexed=1:1", marks=LANES)])
def test_a_changed_split_is_found(policy):
    events, place = changed(served(policy, [(0, 20, 6, 1), (3, 15, 5, 2)], 24, set()), "split", 0, units=[9, 9])
    assert replayed(events).difference.event == place


@pytest.fixture
def two_rounds(monkeypatch):
    """The events of a prompt that is done within two rounds: each decode waits for the layers of the rounds before."""
    bench = Bench("1B,multiplexed")
    bench.engine.add("old", [1, 2, 3], Params(30))
    bench.step()
    layers = Decoder.layers

    def patient(self, hidden, batch, pool, first, last):
        if batch.decodes and bench.engine._driver._batch is not None:
            bench.engine._driver._batch.wait()
        return layers(self, hidden, batch, pool, first, last)

    monkeypatch.setattr(Decoder, "layers", patient)
    bench.engine.add("new", list(range(20)), Params(4))
    bench.drain()
    bench.engine.close()
    return list(read_events(bench.log.getvalue().splitlines()))


@LANES
def test_prompts_that_end_with_layers_left_are_found(two_rounds):
    """With a budget of 1 the simulator runs a layer a round, and has one left where the engine has none."""
    assert replayed(two_rounds).difference is None
    other, _ = changed(two_rounds, "start", group=two_rounds[0]["group"] | {"split_forward_token_budget": 1})
    assert replayed(other).difference.what == "the layers of the prompts"


@pytest.mark.parametrize(
    ("kind", "fields"),
    [("plan", {"lane": 5}), ("end", {"last": [77]}), ("end", {"lane": 3}), ("arrive", {"request": 4})],
)
def test_what_cannot_have_happened_is_refused(example, kind, fields):
    events, _ = changed(example, kind, **fields)
    with pytest.raises(SpecError, match="line"):
        replay_simulated(events[0], workload_of(example), events[1:])
