import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.engine.random import philox, uniform

ALL = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ALL, ALL, ALL, ALL), (ALL, ALL), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers_of_the_authors(counter, key, words):
    def as_arrays(values):
        return tuple(np.array([value], np.uint64) for value in values)

    assert tuple(int(word[0]) for word in philox(as_arrays(counter), as_arrays(key))) == words


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**40)), min_size=1, max_size=8))
def test_a_draw_depends_on_its_own_seed_and_position_alone(pairs):
    seeds = np.array([seed for seed, _ in pairs], np.uint64)
    positions = np.array([position for _, position in pairs], np.int64)
    together = uniform(seeds, positions)
    alone = [uniform(seeds[index : index + 1], positions[index : index + 1])[0] for index in range(len(pairs))]
    assert together.tolist() == alone
    assert ((together >= 0) & (together < 1)).all()


@pytest.mark.parametrize("along", ["seeds", "positions"])
def test_draws_are_uniform_and_do_not_follow_each_other(along):
    count = 50_000
    steps, zeros = np.arange(count), np.zeros(count, np.int64)
    seeds, positions = (steps, zeros) if along == "seeds" else (zeros, steps)
    draws = uniform(seeds.astype(np.uint64), positions)
    found, _ = np.histogram(draws, bins=64, range=(0, 1))
    chi_square = ((found - count / 64) ** 2 / (count / 64)).sum()
    assert chi_square < 120, "63 degrees of freedom: more than 120 has a probability of 2e-5"
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 4.5 / np.sqrt(count)
