import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.errors import SpecError
from twofold.spec.workload import Workload


def three(**changes: object) -> Workload:
    fields: dict[str, object] = {
        "name": "three",
        "arrival_s": np.array([0.0, 1.0, 4.0]),
        "prompt_tokens": np.array([10, 40, 33]),
        "output_tokens": np.array([1, 2, 3]),
        "hash_tokens": 16,
        "hash_start": np.array([0, 0, 2, 4]),
        "hash_ids": np.array([1, 2, 1, 3]),
    }
    return Workload(**(fields | changes))  # type: ignore[arg-type]


def test_arrays_have_the_promised_types() -> None:
    w = three().validate()
    assert w.arrival_s.dtype == np.float64
    assert {w.prompt_tokens.dtype, w.output_tokens.dtype, w.priority.dtype} == {np.dtype(np.int32)}
    assert {w.hash_start.dtype, w.hash_ids.dtype} == {np.dtype(np.int64)}
    assert w.priority.tolist() == [0, 0, 0]


def test_the_rate_counts_gaps_over_their_span() -> None:
    assert three().rate == pytest.approx(2 / 4)
    assert three().head(1).rate == 0
    assert three(arrival_s=np.zeros(3)).rate == float("inf")


def test_head_keeps_the_hashes_of_the_rows_it_keeps() -> None:
    w = three().head(2).validate()
    assert len(w) == 2
    assert w.hash_ids.tolist() == [1, 2]
    assert len(three().head(9)) == 3


def test_a_slice_starts_at_zero() -> None:
    w = three().slice(0.5, 5).validate()
    assert w.arrival_s.tolist() == [0.5, 3.5]
    assert w.hash_ids.tolist() == [1, 2, 1, 3]
    assert w.hash_start.tolist() == [0, 2, 4]


def test_picked_rows_take_their_hashes_along() -> None:
    w = three().picked(np.array([2, 0]))
    assert w.prompt_tokens.tolist() == [33, 10]
    assert w.hash_start.tolist() == [0, 2, 2]
    assert w.hash_ids.tolist() == [1, 3]


@given(st.floats(0.01, 1e4))
def test_at_rate_changes_times_only(rate: float) -> None:
    w = three().at_rate(rate).validate()
    assert w.rate == pytest.approx(rate)
    assert np.diff(w.arrival_s).tolist() == pytest.approx([1 / (2 * rate), 3 / (2 * rate)])
    assert w.prompt_tokens is three().prompt_tokens or w.prompt_tokens.tolist() == [10, 40, 33]


def test_sped_up_divides_times() -> None:
    assert three().sped_up(2).arrival_s.tolist() == [0, 0.5, 2]


def test_scaled_rounds_and_keeps_one_token() -> None:
    w = three().without_hashes().scaled(prompt=0.26, output=0.1).validate()
    assert w.prompt_tokens.tolist() == [3, 10, 9]
    assert w.output_tokens.tolist() == [1, 1, 1]


def test_prefix_hashes_cannot_be_scaled() -> None:
    with pytest.raises(SpecError, match="prefix hashes"):
        three().scaled(prompt=2)


def test_the_content_key_is_of_the_content() -> None:
    key = three().content_key()
    assert key == three(name="other").content_key()
    for changed in (three().sped_up(2), three(priority=np.array([0, 1, 0])), three().without_hashes()):
        assert changed.content_key() != key


def test_describe_counts_repeated_pieces() -> None:
    facts = three().describe()
    assert facts["repeated_pieces"] == pytest.approx(1 / 4)
    assert facts["prompt_tokens"]["sum"] == 83
    assert "zero_outputs" not in facts


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt_tokens": np.array([10, 0, 33])}, "prompt_tokens, row 1: 0 is not accepted"),
        ({"output_tokens": np.array([1, 2])}, "output_tokens: 2 is not accepted; one value a request"),
        (
            {"arrival_s": np.array([0.0, 2.0, 1.0])},
            "arrival_s, row 2: 1.0 is not accepted; arrivals must not go",
        ),
        ({"arrival_s": np.array([0.0, np.nan, 1.0])}, "arrival_s, row 1: nan"),
        ({"arrival_s": np.array([-1.0, 0.0, 1.0])}, "arrival_s, row 0: -1.0"),
        ({"hash_ids": np.array([1, 0, 1, 3])}, "hash_ids, row 1: 0 is not accepted; ids are 1 or more"),
        ({"hash_start": np.array([0, 1, 2, 4])}, "hash_start, row 0: 1 is not accepted; at most one id"),
        ({"hash_tokens": 0}, "hash_tokens: 0"),
        ({"hash_start": np.array([0, 4])}, "hash_start: 2 is not accepted; 4 offsets"),
    ],
)
def test_a_bad_array_is_named_with_its_row(changes: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message.replace("(", r"\(")):
        three(**changes).validate()


def test_an_empty_workload_is_refused() -> None:
    none = np.zeros(0)
    with pytest.raises(SpecError, match="at least 1 request"):
        Workload("none", none, none, none).validate()


@pytest.mark.parametrize("bad", [0, -1, float("inf"), float("nan")])
def test_bad_factors_are_refused(bad: float) -> None:
    for change in (three().at_rate, three().sped_up):
        with pytest.raises(SpecError, match="above 0"):
            change(bad)
