"""The table of requests: who has which slot, and what is written in it."""

import numpy as np
import pytest
from fakes import MODEL, SIZE, device, group
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.engine.planner import Planner, service_arrays
from twofold.engine.slots import Entry, Slots
from twofold.errors import SpecError


def entry(number):
    return Entry(str(number), number, frozenset(), 0, np.inf)


@given(moves=st.lists(st.integers(-1, 4), max_size=30))
@settings(deadline=None)
def test_a_slot_has_one_request_at_a_time(moves):
    """-1 takes a slot, n gives back the n-th of those taken."""
    slots, taken = Slots(4, 8), []
    for number, move in enumerate(moves):
        if move < 0 and len(taken) < 4:
            slot = slots.take(entry(number), [number, 7])
            assert slot not in taken
            assert slots.entry(slot).number == number
            assert slots.tokens[slot, :2].tolist() == [number, 7]
            taken.append(slot)
        elif 0 <= move < len(taken):
            slots.release(taken.pop(move))
    assert sum(held is not None for held in slots.entries) == len(taken)


def test_the_table_is_finite():
    slots = Slots(1, 8)
    slots.take(entry(0), [1])
    with pytest.raises(SpecError, match="1 at a time"):
        slots.take(entry(1), [1])


def test_fresh_tokens_follow_the_text_and_name_the_pieces_that_they_fill():
    slots = Slots(3, 16)
    planner = Planner(service_arrays(group("1B"), MODEL, device(), 20, slots, None, None), slots, "", None)
    for number, length in enumerate((3, 4, 7)):
        slot = slots.take(entry(number), list(range(1, 1 + length)))
        planner.arrive(slot, 0.0, length, 5, 0)
    taken = np.arange(3)
    named = slots.append(planner.state, taken, np.array([50, 51, 52]))
    lengths = planner.s.requests.prompt[:3]
    assert slots.tokens[taken, lengths].tolist() == [50, 51, 52]
    assert named.tolist() == [int((length + 1) % SIZE == 0) for length in lengths]
    assert planner.s.requests.hash_count[:3].tolist() == [(length + 1) // SIZE for length in lengths]
    planner.s.requests.generated[:3] = 1
    assert slots.append(planner.state, taken[lengths == 4], np.array([60])) is None


def test_names_differ_between_engines_and_agree_within_one():
    first, second = Slots(2, 8), Slots(2, 8)
    assert first._start != second._start
    places = [first.take(entry(number), [1, 2]) for number in range(2)]
    assert first.chains[places[0]].tolist() == first.chains[places[1]].tolist()
