"""Slots that are used again, and requests that leave in every state."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small import scheduler

from twofold.scheduler.policies import no_custom, policy
from twofold.scheduler.service import arrive, compiled_fill, last_token, leave, planner
from twofold.scheduler.state import CUSTOM, DECODING, DONE, HELD, NONE, STARTED, WAITING, refer
from twofold.scheduler.step import commit


class Service:
    """One replica with room for a few requests."""

    def __init__(self, text="1B,chunked=16", slots=4, fill=no_custom):
        self.s = scheduler(text, [1] * slots)
        self.state, self.fill = refer(self.s), compiled_fill(fill)
        self.clock = 0.0

    def arrive(self, slot, prompt=20, output=5, priority=0):
        self.clock += 1.0
        arrive(self.state, 0, slot, self.clock, prompt, output, priority)

    def plan(self):
        return planner()(self.state, 0, 0, self.fill)

    def step(self):
        if self.plan():
            commit(self.state, 0, 0, 1)

    def assert_empty(self):
        replica = self.s.replicas[0]
        assert replica.free_blocks == replica.total_blocks
        assert (replica.waiting, replica.started, replica.decoding, replica.held) == (0, 0, 0, 0)
        assert replica.queue == NONE


@pytest.mark.parametrize(("steps", "state"), [(0, WAITING), (1, STARTED), (2, DECODING), (6, DONE)])
def test_a_request_leaves_from_any_state(steps, state):
    service = Service()
    service.arrive(0)
    for _ in range(steps):
        service.step()
    assert service.s.requests[0].state == state
    assert leave(service.state, 0, 0)
    assert service.s.requests[0].state == DONE
    service.assert_empty()


def test_a_held_request_leaves():
    service = Service()
    service.arrive(0)
    service.step()
    service.s.requests[0].moves = 1
    service.step()
    assert service.s.requests[0].state == HELD
    assert leave(service.state, 0, 0)
    service.s.replicas[0].started = 0
    service.assert_empty()


def test_a_request_does_not_leave_a_step_that_is_being_run():
    service = Service()
    service.arrive(0)
    service.plan()
    assert not leave(service.state, 0, 0)
    commit(service.state, 0, 0, 1)
    assert leave(service.state, 0, 0)
    service.assert_empty()


@pytest.mark.parametrize("steps", [1, 3])
def test_the_last_token_ends_a_request_whatever_it_was_allowed(steps):
    service = Service("1B,chunked=64")
    service.arrive(0, output=50)
    for _ in range(steps - 1):
        service.step()
    service.plan()
    last_token(service.state, 0)
    commit(service.state, 0, 0, 1)
    assert (service.s.requests[0].state, service.s.requests[0].generated) == (DONE, steps)
    service.assert_empty()


@given(
    moves=st.lists(st.tuples(st.sampled_from(["arrive", "leave", "step"]), st.integers(0, 3), st.integers(1, 60))),
)
@settings(deadline=None, max_examples=40)
def test_slots_are_used_again_without_a_trace(moves):
    """Each slot holds what its present request asked for, and all memory comes back."""
    service, present = Service("1B,chunked=16,batch=2"), {}
    for move, slot, size in moves:
        if move == "arrive" and slot not in present:
            service.arrive(slot, size, size)
            present[slot] = size
        elif move == "leave" and present.pop(slot, None):
            assert leave(service.state, 0, slot)
        else:
            service.step()
        present = {slot: size for slot, size in present.items() if service.s.requests[slot].state != DONE}
        for held, asked in present.items():
            request = service.s.requests[held]
            assert request.prompt == request.output == asked
            assert 0 <= request.computed <= request.planned <= request.target
    for slot in present:
        assert leave(service.state, 0, slot)
    service.assert_empty()


def test_a_policy_of_ones_own_plans():
    @policy("nothing-at-all")
    def nothing(s, r, k):
        return 0

    service = Service(fill=nothing)
    service.s.replicas[0].policy = CUSTOM
    service.arrive(0)
    assert service.plan() == 0
    assert service.s.requests[0].state == WAITING
