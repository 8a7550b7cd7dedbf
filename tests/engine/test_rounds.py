"""Rounds of a multiplexed replica: what runs beside what, and when the split changes."""

import os
import threading

import pytest
from fakes import LAYERS, Bench, Decoder, Params, expected

from twofold.engine.decisions import read_events

ENOUGH = hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) >= 2
pytestmark = pytest.mark.skipif(not ENOUGH, reason="lanes need two cores")
PROMPT = list(range(20))


def events(bench, kind):
    return [event for event in read_events(bench.log.getvalue().splitlines()) if event["event"] == kind]


@pytest.fixture
def bench(monkeypatch):
    """One request decodes; the layers of every prompt after that wait for ``gate``; ``calls`` has all layer calls.

    Once the gate is open, a decode step waits for the layers of the rounds before: no prompt takes many rounds.
    """
    made, gate, calls = Bench("1B,multiplexed,layer-budget=20"), threading.Event(), []
    made.engine.add("old", [1, 2, 3], Params(30))
    made.step()
    layers = Decoder.layers

    def watched(self, hidden, batch, pool, first, last):
        calls.append((threading.get_ident(), batch.decodes, first, last))
        if batch.decodes == 0:
            assert gate.wait(20)
        elif gate.is_set() and made.engine._driver._batch is not None:
            made.engine._driver._batch.wait()
        return layers(self, hidden, batch, pool, first, last)

    monkeypatch.setattr(Decoder, "layers", watched)
    made.gate, made.calls = gate, calls
    yield made
    gate.set()
    made.engine.close()


def test_decodes_go_on_while_a_prompt_is_computed(bench):
    bench.engine.add("new", PROMPT, Params(4))
    for _ in range(6):
        bench.step()
    assert len(bench.tokens["old"]) == 7
    assert "new" not in bench.tokens
    assert bench.engine.stats()["split"] == (1, 1)
    bench.gate.set()
    bench.drain()
    assert bench.tokens == {"old": expected([1, 2, 3], Params(30)), "new": expected(PROMPT, Params(4))}
    bench.assert_empty()


def test_a_round_runs_the_layers_that_its_budget_has(bench):
    """20 tokens x 1 layer a round, in a thread of its own."""
    bench.gate.set()
    bench.engine.add("new", PROMPT, Params(2))
    bench.drain()
    prompts = [call for call in bench.calls if call[1] == 0]
    assert [call[2:] for call in prompts] == [(layer, layer + 1) for layer in range(LAYERS)]
    assert {call[0] for call in prompts}.isdisjoint(call[0] for call in bench.calls if call[1] > 0 and call[3] == 1)


def test_the_split_changes_where_a_batch_is_formed_and_merged(bench):
    bench.gate.set()
    bench.engine.add("new", PROMPT, Params(2))
    bench.drain()
    units = [tuple(event["units"]) for event in events(bench, "split")]
    changes = [here for here, before in zip(units, [None, *units], strict=False) if here != before]
    assert changes == [(2, 0), (1, 1), (0, 2)]


def test_who_leaves_while_its_prompt_is_computed_is_gone_at_once_and_freed_later(bench):
    bench.engine.add("new", PROMPT, Params(4))
    bench.step()
    bench.engine.abort("new")
    bench.engine.add("new", [5], Params(1))
    bench.step()
    assert bench.engine.stats()["waiting"] == 1
    bench.gate.set()
    bench.drain()
    assert bench.tokens["new"] == expected([5], Params(1))
    bench.assert_empty()


def test_a_failure_in_a_lane_reaches_the_caller(bench, monkeypatch):
    def fail(self, tokens):
        raise RuntimeError("no memory")

    monkeypatch.setattr(Decoder, "embed", fail)
    bench.gate.set()
    bench.engine.add("new", PROMPT, Params(4))
    with pytest.raises(RuntimeError, match="no memory"):
        bench.drain()
