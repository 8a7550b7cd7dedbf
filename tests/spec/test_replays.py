import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.errors import SpecError
from twofold.spec.replays import repeated, resampled
from twofold.spec.synthetic import Synthetic
from twofold.spec.workload import Workload


def drawn(requests: int, seed: int = 0, **options) -> Workload:
    return Synthetic(rate=5, requests=requests, seed=seed, **options).workload()


def hashed(requests: int, seed: int = 0) -> Workload:
    return drawn(requests, seed, shared_prefix={"pool": 3, "tokens": 64})


def ids_of(workload: Workload, row: int) -> list[int]:
    return workload.hash_ids[workload.hash_start[row] : workload.hash_start[row + 1]].tolist()


@given(requests=st.integers(2, 60), times=st.integers(1, 6), seed=st.integers(0, 1000))
def test_repeated_keeps_requests_order_gaps_and_rate(requests, times, seed):
    workload = drawn(requests, seed)
    longer = repeated(workload, times).validate()
    assert len(longer) == times * requests
    for column in ("prompt_tokens", "output_tokens", "priority"):
        np.testing.assert_array_equal(getattr(longer, column), np.tile(getattr(workload, column), times))
    gaps, mean = np.diff(workload.arrival_s), workload.span_s / (requests - 1)
    expected = np.tile(np.append(gaps, mean), times)[:-1]
    np.testing.assert_allclose(np.diff(longer.arrival_s), expected, rtol=0, atol=1e-9)
    assert longer.rate == pytest.approx(workload.rate)


def test_once_is_the_workload_itself():
    workload = hashed(20)
    assert repeated(workload, 1).content_key() == workload.content_key()


def test_copies_share_prefixes_within_but_not_across():
    workload = hashed(30)
    longer = repeated(workload, 3).validate()
    copies = [set(longer.hash_ids[longer.hash_start[30 * k] : longer.hash_start[30 * (k + 1)]]) for k in range(3)]
    assert len(set.union(*copies)) == sum(map(len, copies)) == 3 * len(set(workload.hash_ids))
    assert longer.describe()["repeated_pieces"] == pytest.approx(workload.describe()["repeated_pieces"])


@pytest.mark.parametrize("times", [0, -1])
def test_it_is_played_at_least_once(times):
    with pytest.raises(SpecError, match="1 or more"):
        repeated(drawn(5), times)


def test_a_lone_request_can_be_repeated():
    assert len(repeated(drawn(1), 4).validate()) == 4


@given(requests=st.integers(1, 80), blocks=st.integers(1, 100), seed=st.integers(0, 1000))
def test_resampled_has_as_many_requests_with_the_gaps_before_them(requests, blocks, seed):
    """Prompts are row numbers here, so each drawn request says which it was."""
    gaps = np.random.default_rng(seed).exponential(1.0, requests)
    numbers = np.arange(requests) + 1
    workload = Workload("numbered", np.cumsum(gaps), numbers, numbers)
    other = resampled(workload, blocks, seed).validate()
    assert len(other) == requests
    rows = other.prompt_tokens - 1
    np.testing.assert_array_equal(other.output_tokens, workload.output_tokens[rows])
    size = max(1, requests // max(1, min(blocks, requests)))
    assert all(row % size == position % size for position, row in enumerate(rows.tolist()))
    mean = workload.span_s / max(requests - 1, 1)
    expected = np.diff(workload.arrival_s, prepend=workload.arrival_s[0] - mean)[rows][1:]
    np.testing.assert_allclose(np.diff(other.arrival_s), expected, rtol=0, atol=1e-9)


def test_resampled_is_the_same_for_a_seed_and_another_for_another():
    workload = hashed(100)
    one, same, other = (resampled(workload, 20, seed).content_key() for seed in (1, 1, 2))
    assert one == same != other


def test_a_block_drawn_again_shares_nothing_with_its_first_copy():
    workload = hashed(100)
    other = resampled(workload, 10, 5).validate()
    seen: dict[tuple[int, ...], set[int]] = {}
    for start in range(0, 100, 10):
        block = tuple(other.prompt_tokens[start : start + 10].tolist())
        ids = {name for row in range(start, start + 10) for name in ids_of(other, row)}
        assert not ids & seen.get(block, set())
        seen[block] = seen.get(block, set()) | ids
    assert len(seen) < 10


def test_resampling_gives_about_the_same_load():
    workload = drawn(2000)
    rates = [resampled(workload, 50, seed).rate for seed in range(20)]
    tokens = [resampled(workload, 50, seed).prompt_tokens.mean() for seed in range(20)]
    assert np.mean(rates) == pytest.approx(workload.rate, rel=0.05)
    assert np.mean(tokens) == pytest.approx(workload.prompt_tokens.mean(), rel=0.05)
