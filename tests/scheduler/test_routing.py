"""Each way to choose a replica, on states made for it."""

import numpy as np
import pytest
from small import scheduler, with_prefixes

import twofold
from twofold.scheduler.memory import allocate, register
from twofold.scheduler.routing import METHODS, choose_replica, note_dispatch, note_end, note_first_token
from twofold.scheduler.state import NONE, refer
from twofold.simulate.build import build_routes

DRAWS = np.linspace(0.0, 0.9999, 40)


class Fleet:
    """``count`` replicas and a router."""

    def __init__(self, method, count=4, prompts=(128, 64, 64, 64), **options):
        columns = options.pop("columns", {})
        self.s = scheduler(f"{count}B", list(prompts), **columns)
        deployment = twofold.deployment(f"{count}B", model="llama-3-8b", device="H100", router=method, **options)
        self.routes, self.router = build_routes(deployment, count)
        self.state, self.members = refer(self.s), np.arange(count)

    def choose(self, draw=0.0, second=0.0, slot=0, prefill=True):
        return choose_replica(self.state, self.routes, self.router, self.members, slot, prefill, draw, second)


def test_round_robin_takes_turns_and_skips_the_dead():
    fleet = Fleet("round-robin")
    assert [fleet.choose() for _ in range(6)] == [0, 1, 2, 3, 0, 1]
    fleet.s.replicas[2].alive = 0
    assert fleet.choose() == 3


def test_prompts_and_decodes_have_turns_of_their_own():
    fleet = Fleet("round-robin")
    assert [fleet.choose(prefill=prefill) for prefill in (True, False, True, False)] == [0, 0, 1, 1]


def test_random_is_uniform():
    fleet = Fleet("random")
    assert np.bincount([fleet.choose(draw) for draw in DRAWS]).tolist() == [10, 10, 10, 10]


def test_least_requests_and_random_ties():
    fleet = Fleet("least-requests")
    fleet.routes.requests = [3, 1, 2, 1]
    assert np.bincount([fleet.choose(draw) for draw in DRAWS]).tolist() == [0, 20, 0, 20]
    fleet.s.replicas[1].alive = 0
    assert {fleet.choose(draw) for draw in DRAWS} == {3}


def test_least_tokens_counts_what_is_not_prefilled_yet():
    fleet = Fleet("least-tokens")
    fleet.routes.prefill_tokens = [900, 500, 100, 400]
    fleet.routes.tokens = [10, 5000, 9000, 8000]
    assert fleet.choose() == 2
    assert fleet.choose(prefill=False) == 0


@pytest.mark.parametrize(("first", "second", "chosen"), [(0.1, 0.3, 1), (0.3, 0.1, 1), (0.6, 0.9, 3), (0.1, 0.1, 0)])
def test_power_of_two_takes_the_shorter_of_two_drawn(first, second, chosen):
    fleet = Fleet("power-of-two")
    fleet.routes.requests = [5, 2, 9, 4]
    assert fleet.choose(first, second) == chosen


def kv_fleet(**options):
    """Dynamo's worked example: prompt blocks to compute 8, 5, 2 and blocks in use 10, 5, 9: costs 18, 10, 11.

    The prompt has 8 blocks, of which the workers hold 0, 3 and 6; it is in no worker's blocks yet.
    """
    rows = [[1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3], [1, 2, 3, 4, 5, 6]]
    fleet = Fleet("kv-aware", 3, (128, 48, 96), columns=with_prefixes(rows, 16), **options)
    for r, slot in ((1, 1), (2, 2)):
        tokens = int(fleet.s.requests[slot].prompt)
        assert allocate(fleet.state, r, slot, tokens)
        fleet.s.requests[slot].context = tokens
        register(fleet.state, r, slot)
    fleet.routes.blocks = [2, -3, 1]
    return fleet


def test_kv_aware_weighs_cached_prefixes_against_load():
    fleet = kv_fleet()
    assert fleet.choose() == 1
    assert fleet.routes.cost.tolist() == [18.0, 10.0, 11.0]


def test_kv_aware_with_a_temperature_is_a_softmax_of_the_normalised_cost():
    fleet = kv_fleet(temperature=0.5)
    weights = np.exp(-np.array([8.0, 0.0, 1.0]) / (8.0 * 0.5))
    draws = (np.arange(20000) + 0.5) / 20000
    chosen = np.bincount([fleet.choose(draw) for draw in draws], minlength=3) / 20000
    np.testing.assert_allclose(chosen, weights / weights.sum(), atol=2e-4)


def test_kv_aware_breaks_ties_at_random():
    fleet = Fleet("kv-aware")
    assert np.bincount([fleet.choose(draw) for draw in DRAWS]).tolist() == [10, 10, 10, 10]


def test_kv_aware_for_decode_is_the_fewest_blocks():
    fleet = kv_fleet()
    fleet.routes.blocks = [4, 3, 9]
    fleet.routes.prefill_tokens = [0, 10**6, 0]
    assert fleet.choose(prefill=False) == 1


def test_the_credit_and_scale_of_the_cost_are_options():
    fleet = kv_fleet(overlap_credit=0.0, prefill_load_scale=2.0, decode_active_request_weight=3.0)
    fleet.routes.requests = [1, 0, 2]
    fleet.choose()
    assert fleet.routes.cost.tolist() == [16 + 10 + 3, 16 + 5, 16 + 9 + 6]


@pytest.mark.parametrize("method", METHODS)
def test_nobody_is_chosen_when_all_are_dead(method):
    fleet = Fleet(method)
    fleet.s.replicas.alive = 0
    assert fleet.choose(0.3, 0.7) == NONE
    fleet.members = np.zeros(0, np.int64)
    assert fleet.choose(0.3, 0.7) == NONE


@pytest.mark.parametrize("method", METHODS)
def test_only_the_living_are_chosen(method):
    fleet = Fleet(method)
    fleet.s.replicas.alive = [0, 0, 1, 0]
    assert {fleet.choose(draw, 1 - draw - 1e-9) for draw in DRAWS} == {2}


def test_the_account_changes_at_dispatch_first_token_and_end():
    fleet = Fleet("least-tokens")
    note_dispatch(fleet.state, fleet.routes, 1, 0, True)
    note_dispatch(fleet.state, fleet.routes, 1, 1, False)
    route = fleet.routes[1]
    assert (route.requests, route.prefill_tokens, route.tokens, route.blocks) == (2, 128, 192, 12)
    note_first_token(fleet.state, fleet.routes, 1, 0)
    assert (route.requests, route.prefill_tokens, route.tokens, route.blocks) == (2, 0, 192, 12)
    note_end(fleet.state, fleet.routes, 1, 0)
    note_end(fleet.state, fleet.routes, 1, 1)
    assert (route.requests, route.prefill_tokens, route.tokens, route.blocks) == (0, 0, 0, 0)
    assert not fleet.routes.requests[[0, 2, 3]].any()
