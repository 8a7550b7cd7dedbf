"""How a chapter's value is compared with ours."""

import pytest

from twofold.figures.row import near, number, sampled, text, within


def test_an_exact_number_must_print_alike() -> None:
    assert number("", "", 116.67, 116.6667, "ms").ok
    assert not number("", "", 116.67, 116.676, "ms").ok
    assert number("", "", 116.67, 116.6667, "ms").chapter_value == "116.67 ms"


def test_a_model_number_may_leave_by_three_percent() -> None:
    assert near("", "", 100, 102.9, "ms").ok
    missed = near("", "", 100, 96, "ms")
    assert not missed.ok
    assert missed.difference == pytest.approx(-0.04)


def test_texts_that_differ_have_no_difference() -> None:
    assert text("", "", 7, "7").difference == 0.0
    other = text("", "", "a", "b")
    assert (other.ok, other.difference) == (False, None)


@pytest.mark.parametrize(
    ("ours", "difference"),
    [((2.7, 3.4), 0.0), ((2.6, 3.5), 0.0), ((2.0, 3.4), -0.6 / 2.6), ((2.7, 4.0), 0.5 / 3.5)],
)
def test_a_range_differs_by_how_far_it_leaves(ours: tuple[float, float], difference: float) -> None:
    row = within("", "", (2.6, 3.5), ours, "x")
    assert row.difference == pytest.approx(difference)
    assert row.ok == (abs(difference) <= 0.03)


def test_a_random_run_lies_in_the_range_of_several() -> None:
    inside = sampled("", "", 10.0, [8.0, 11.0], "s", 1, "seeds")
    assert inside.ok
    assert inside.difference == pytest.approx(-0.05)
    assert inside.inputs == "seeds, from 8.0 to 11.0 s"
    assert not sampled("", "", 12.0, [8.0, 11.0], "s", 1, "seeds").ok
