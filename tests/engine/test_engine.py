"""Whatever the policy, the batch mates and the memory, a request gets the tokens that it would get alone."""

import os

import numpy as np
import pytest
from fakes import CONTEXT, SIZE, VOCAB, Bench, Params, expected
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.cost.step import COST
from twofold.engine.decisions import read_events
from twofold.engine.origin import Recorded
from twofold.errors import SpecError

ENOUGH = hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) >= 2
LANES = pytest.param("1B,multiplexed", marks=pytest.mark.skipif(not ENOUGH, reason="lanes need two cores"))
WHOLE = ["1B,request-level", "1B,prefill-first", "1B,mixed", "1B,chunked=5", "1B,chunked=9,reserve", "1B,no-prefix"]
EVERY = [*WHOLE, LANES]

TEXTS = st.tuples(st.sampled_from([0, 3, 40]), st.integers(1, 30))
"""First token and length of a prompt: those with the same first share a prefix."""
REQUESTS = st.lists(st.tuples(TEXTS, st.integers(1, 12), st.integers(0, 6)), min_size=1, max_size=9)


def text_of(first, length):
    return [(first + 5 * i) % VOCAB for i in range(length)]


@pytest.mark.parametrize("policy", EVERY)
@given(requests=REQUESTS, blocks=st.integers(11, 30), batch=st.integers(1, 6))
@settings(deadline=None, max_examples=14)
def test_outputs_do_not_depend_on_company_memory_or_policy(policy, requests, blocks, batch):
    bench = Bench(f"{policy},batch={batch}", blocks)
    for number, (text, most, pause) in enumerate(requests):
        bench.engine.add(str(number), text_of(*text), Params(most))
        for _ in range(pause):
            bench.step()
    bench.drain()
    for number, (text, most, _) in enumerate(requests):
        assert bench.tokens[str(number)] == expected(text_of(*text), Params(most))
    bench.assert_empty()
    bench.engine.close()


@pytest.mark.parametrize("policy", EVERY)
@given(requests=REQUESTS, eos=st.integers(0, 8), aborts=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 8))))
@settings(deadline=None, max_examples=10)
def test_early_ends_and_aborts_disturb_nobody(policy, requests, eos, aborts):
    """Stop tokens are frequent: an end of text, and one of each request's own."""
    bench = Bench(f"{policy},batch=4", 14, eos)
    params = [Params(most, most // 3, (5 * n % VOCAB,)) for n, (_, most, _) in enumerate(requests)]
    for number, (text, _, _) in enumerate(requests):
        bench.engine.add(str(number), text_of(*text), params[number])
    for step in range(13):
        for _, number in filter(lambda abort, now=step: abort[0] == now, aborts):
            bench.engine.abort(str(number))
        bench.step()
    bench.drain()
    gone = {str(number) for _, number in aborts}
    for number, (text, _, _) in enumerate(requests):
        tokens, alone = bench.tokens.get(str(number), []), expected(text_of(*text), params[number], eos)
        if str(number) in bench.finish:
            assert tokens == alone
            assert bench.finish[str(number)] == ("stop" if tokens[-1] in (eos, 5 * number) else "length")
        else:
            assert str(number) in gone
            assert tokens == alone[: len(tokens)]
    bench.assert_empty()
    bench.engine.close()


def test_memory_for_one_preempts_and_still_ends():
    bench = Bench("1B,mixed", 11)
    for number in range(4):
        bench.engine.add(str(number), text_of(number, 12), Params(20))
    bench.drain()
    assert bench.engine.stats()["preemptions"] > 0
    assert [bench.tokens[str(n)] for n in range(4)] == [expected(text_of(n, 12), Params(20)) for n in range(4)]


def test_a_prefix_is_computed_once_and_generated_tokens_are_a_prefix_too():
    bench = Bench("1B,chunked=64")
    bench.engine.add("first", text_of(3, 20), Params(9))
    bench.drain()
    answered = text_of(3, 20) + bench.tokens["first"]
    assert bench.engine.stats()["prefix_hits"] == 0
    bench.engine.add("again", [*answered, 7], Params(3))
    bench.drain()
    assert bench.engine.stats()["prefix_hits"] == 28
    assert bench.tokens["again"] == expected([*answered, 7], Params(3))


def test_priority_decides_who_waits():
    bench = Bench("1B,chunked=64,order=priority,batch=1")
    for name, priority in (("running", 5), ("patient", 2), ("urgent", 1)):
        bench.engine.add(name, text_of(0, 5), Params(3), priority=priority)
        bench.step()
    bench.drain()
    assert list(bench.finish) == ["running", "urgent", "patient"]


def test_a_deadline_ends_a_request_wherever_it_is():
    bench = Bench("1B,chunked=64,batch=1")
    bench.engine.add("runs", text_of(0, 5), Params(40), deadline_s=0.03)
    bench.engine.add("waits", text_of(0, 5), Params(40), deadline_s=0.02)
    bench.engine.add("fast", text_of(0, 5), Params(2), deadline_s=30.0)
    bench.drain()
    assert bench.finish == {"waits": "abort", "runs": "abort", "fast": "length"}
    assert 0 < len(bench.tokens["runs"]) < 40
    bench.assert_empty()


def test_deadlines_of_requests_that_are_gone_are_forgotten():
    bench = Bench("1B,chunked=64", requests=3)
    bench.engine.add("stays", text_of(0, 5), Params(40), deadline_s=0.05)
    for number in range(50):
        bench.engine.add(str(number), text_of(0, 5), Params(1), deadline_s=1e6)
        bench.engine.abort(str(number))
    assert len(bench.engine._deadlines) <= 6
    bench.drain()
    assert bench.finish == {"stays": "abort"}
    bench.assert_empty()


def test_a_row_without_a_token_is_an_error_of_that_request_alone():
    bench = Bench("1B,mixed")
    sample = bench.sampler.sample
    bench.engine.add("bad", text_of(0, 5), Params(5))
    bench.engine.add("good", text_of(3, 5), Params(5))
    slot = bench.engine._named["bad"]

    def none_for_bad(logits, slots):
        sampled = sample(logits, slots)
        sampled.tokens[slots == slot] = -1
        return sampled

    bench.sampler.sample = none_for_bad
    bench.drain()
    assert bench.finish == {"bad": "error", "good": "length"}
    assert bench.tokens == {"bad": [], "good": expected(text_of(3, 5), Params(5))}
    bench.assert_empty()


@pytest.mark.parametrize(
    ("prompt", "params", "field"),
    [
        ([], Params(), "prompt tokens"),
        ([1] * CONTEXT, Params(), "prompt tokens"),
        ([1, VOCAB], Params(), "prompt tokens"),
        ([1, -1], Params(), "prompt tokens"),
        ([1] * 10, Params(CONTEXT - 9), "max_tokens"),
    ],
)
def test_what_cannot_be_served_is_refused_and_takes_nothing(prompt, params, field):
    bench = Bench("1B")
    with pytest.raises(SpecError) as refusal:
        bench.engine.add("a", prompt, params)
    assert refusal.value.field == field
    assert not bench.engine.has_work
    bench.assert_empty()


def test_a_pool_smaller_than_the_context_bounds_a_request():
    bench = Bench("1B", blocks=3)
    with pytest.raises(SpecError, match="at most 2 after 10"):
        bench.engine.add("a", [1] * 10, Params(3))
    bench.engine.add("a", [1] * 10, Params(None))
    bench.drain()
    assert bench.tokens["a"] == expected([1] * 10, Params(2))


def test_an_id_is_free_again_at_once_and_slots_run_out():
    bench = Bench("1B", requests=2)
    bench.engine.add("a", [1, 2], Params())
    with pytest.raises(SpecError, match="no present request"):
        bench.engine.add("a", [1, 2], Params())
    bench.engine.abort("a")
    bench.engine.abort("never seen")
    for name in ("a", "b"):
        bench.engine.add(name, [1, 2], Params())
    with pytest.raises(SpecError, match="2 at a time"):
        bench.engine.add("c", [1, 2], Params())


def test_what_the_sampler_refuses_takes_no_slot():
    bench = Bench("1B")

    def refuse(slot, params, prompt):
        raise SpecError("grammar", "x", "none")

    bench.sampler.add = refuse
    with pytest.raises(SpecError, match="grammar"):
        bench.engine.add("a", [1, 2], Params())
    bench.assert_empty()


@pytest.mark.parametrize("text", ["1B,tp2", "1P", "1B,host=1GB", "1B,pp2"])
def test_what_only_the_simulator_can_do_is_refused(text):
    with pytest.raises(SpecError, match="the engine serves only"):
        Bench(text)


def test_the_pool_and_the_group_must_have_the_same_blocks():
    with pytest.raises(SpecError, match=f"accepted: {SIZE}, as the pool has"):
        Bench("1B,blocks=8")


def test_a_prompt_has_one_chunk_in_a_step_even_where_longer_steps_are_faster():
    """By these costs 8 to 15 tokens take longer than 20, so a budget of 4 ms has room again behind 7 tokens."""
    costs = np.zeros(1, COST).view(np.recarray)
    costs.decode_pieces, costs.stages, costs.prompt_pieces = 1, 1, 3
    costs.prompt_from[0, :3], costs.prompt_base_s[0, :3] = [0, 8, 16], [1e-3, 9e-3, 2e-3]
    costs.prompt_token_s[0, 2] = 1e-4
    bench = Bench("1B,chunked=4ms,batch=2", cost=Recorded(costs))
    prompts = {"a": text_of(3, 50), "b": text_of(7, 33)}
    for name, prompt in prompts.items():
        bench.engine.add(name, prompt, Params(4))
    bench.drain()
    assert bench.tokens == {name: expected(prompt, Params(4)) for name, prompt in prompts.items()}
    plans = [event["items"] for event in read_events(bench.log.getvalue().splitlines()) if event["event"] == "plan"]
    assert plans[0] == [[0, 20]]
    bench.assert_empty()


def test_a_life_is_divided_without_remainder():
    bench, found = Bench("1B,chunked=4"), {}
    for number in range(3):
        bench.engine.add(str(number), text_of(number, 15), Params(4))
    while bench.engine.has_work:
        found |= {output.id: output.times for output in bench.engine.step() if output.times}
    events = list(read_events(bench.log.getvalue().splitlines()))
    arrived = {str(event["request"]): event["at"] for event in events if event["event"] == "arrive"}
    ended = {str(number): event["at"] for event in events if event["event"] == "end" for number in event["last"]}
    for name, times in found.items():
        assert sum(times) == pytest.approx(ended[name] - arrived[name])
        assert min(times) >= -1e-9
    assert found["0"].queued_s < found["1"].queued_s < found["2"].queued_s
    assert len(found) == len(ended) == 3


def test_stats_count_what_was_done():
    bench = Bench("1B,chunked=6,batch=2")
    for number in range(3):
        bench.engine.add(str(number), text_of(number, 10), Params(3))
    assert bench.engine.stats()["waiting_by_reason"] == {"order": 3}
    bench.step()
    bench.step()
    stats = bench.engine.stats()
    assert (stats["running"], stats["waiting"], stats["waiting_by_reason"]) == (2, 1, {"batch": 1})
    assert stats["kv_usage"] > 0
    bench.drain()
    stats = bench.engine.stats()
    assert stats["step_tokens"] == {"prompt": 30, "decode": 6}
    assert stats["prefix_queries"] == 30
    assert stats["steps"] == sum(stats["steps_by_kind"].values())
    assert (stats["budget_tokens"], stats["kv_usage"], stats["split"]) == (6, 0.0, None)
