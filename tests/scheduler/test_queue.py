"""The waiting queue against sorting by the definition of each order."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small import scheduler

from twofold.scheduler.queue import before, dequeue, enqueue, withdraw
from twofold.scheduler.state import NONE, refer

REQUEST = st.tuples(st.integers(0, 50), st.integers(1, 8000), st.integers(0, 3))


def filled(order, rows):
    rows = sorted(rows)
    arrival, prompt, priority = map(list, zip(*rows, strict=True))
    s = scheduler(f"1B,{order}", prompt, arrival_s=np.array(arrival, float), priority=np.array(priority))
    return s, rows


def drained(s, state):
    found = []
    while s.replicas[0].waiting > 0:
        found.append(dequeue(state, 0))
    assert dequeue(state, 0) == NONE
    return found


KEYS = {
    "order=fcfs": lambda row: row[0],
    "order=priority": lambda row: (row[2], row[0]),
    "order=short-first,ageing=10s": lambda row: row[0] / 10.0 + np.log2(row[1]),
}


@pytest.mark.parametrize("order", KEYS)
@given(rows=st.lists(REQUEST, min_size=1, max_size=40), shuffle=st.randoms())
@settings(deadline=None, max_examples=25)
def test_requests_leave_in_the_order_of_the_definition(order, rows, shuffle):
    s, rows = filled(order, rows)
    state, slots = refer(s), list(range(len(rows)))
    shuffle.shuffle(slots)
    for slot in slots:
        enqueue(state, 0, slot)
    found = [KEYS[order](rows[slot]) for slot in drained(s, state)]
    np.testing.assert_allclose(found, sorted(found), atol=1e-12)
    assert len(found) == len(rows)


@given(rows=st.lists(REQUEST, min_size=3, max_size=25), picks=st.lists(st.integers(0, 24), max_size=10))
@settings(deadline=None, max_examples=25)
def test_a_request_can_be_withdrawn_from_anywhere(rows, picks):
    s, rows = filled("order=short-first", rows)
    state, left = refer(s), set(range(len(rows)))
    for slot in left:
        enqueue(state, 0, slot)
    for pick in picks:
        if pick in left:
            withdraw(state, 0, pick)
            left.discard(pick)
            assert s.replicas[0].waiting == len(left)
    order = drained(s, state)
    assert set(order) == left
    assert all(before(state, a, b) for a, b in pairwise(order))


def test_a_short_prompt_overtakes_until_the_long_one_has_aged():
    s, _ = filled("order=short-first,ageing=10s", [(0, 8000, 0), (30, 1000, 0), (31, 1000, 0)])
    state = refer(s)
    for slot in range(3):
        enqueue(state, 0, slot)
    assert drained(s, state) == [0, 1, 2]
    s, _ = filled("order=short-first,ageing=10s", [(0, 8000, 0), (29, 1000, 0)])
    state = refer(s)
    for slot in range(2):
        enqueue(state, 0, slot)
    assert drained(s, state) == [1, 0]


def test_ageing_bounds_how_long_a_prompt_is_overtaken():
    """A stream of 64-token prompts cannot pass an 8192-token one from second 10 log2(128) = 70 on."""
    s = scheduler("1B,order=short-first,ageing=10s", [8192] + [64] * 100)
    state = refer(s)
    for slot in range(101):
        enqueue(state, 0, slot)
    assert drained(s, state).index(0) == 69
