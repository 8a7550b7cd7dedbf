"""Stream groups and their choice, against the rules that the PD multiplexing chapter prints."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.errors import SpecError
from twofold.scheduler.split import (
    choose,
    choose_for_tbt,
    divide,
    fixed_groups,
    granularity,
    layers_per_round,
    stream_groups,
)

AUTOMATIC = np.empty(0, dtype=np.int64)
H200_ROWS = ((112, 20, 1), (104, 28, 5), (96, 36, 10), (80, 52, 15), (64, 68, 20), (56, 76, 25))


def divisions(units: int, capability: str, **options: int) -> list[tuple[int, ...]]:
    return [tuple(row) for row in stream_groups(units, capability, **options).divisions.tolist()]


def test_h100_groups_are_those_of_the_chapter() -> None:
    inner = [(112, 20), (104, 28), (96, 36), (88, 44), (80, 52), (72, 60)]
    assert divisions(132, "9.0") == [(132, 0), *inner, (0, 132)]


def test_few_candidates_make_fewer_groups() -> None:
    assert divisions(78, "9.0") == [(78, 0), (56, 22), (48, 30), (40, 38), (0, 78)]


def test_two_divisions_of_an_a100() -> None:
    assert divide(108, "8.0", 2) == [(74, 34), (54, 54)]


@pytest.mark.parametrize("capability", ["10.0", "12.0"])
def test_blackwell_divides_like_hopper(capability: str) -> None:
    assert granularity(capability) == granularity("9.0")


def test_cores_divide_down_to_one_each() -> None:
    assert divisions(2, "cpu") == [(2, 0), (1, 1), (0, 2)]
    assert divisions(4, "cpu") == [(4, 0), (3, 1), (2, 2), (0, 4)]


@pytest.mark.parametrize("capability", [None, "5.2", "gfx942", "11.0"])
def test_unknown_capability_is_refused_by_name(capability: str | None) -> None:
    with pytest.raises(SpecError, match="compute_capability") as error:
        stream_groups(132, capability)
    assert "9" in str(error.value)


@pytest.mark.parametrize(("units", "capability", "least"), [(20, "9.0", "32"), (1, "cpu", "2"), (30, "8.6", "32")])
def test_too_few_units_are_refused_with_the_least_accepted(units: int, capability: str, least: str) -> None:
    with pytest.raises(SpecError, match=f"{least} units or more"):
        stream_groups(units, capability)
    assert len(stream_groups(int(least), capability).divisions) == 3


@given(
    units=st.integers(40, 200),
    capability=st.sampled_from(["6.1", "7.0", "8.0", "9.0"]),
    groups=st.integers(3, 12),
)
def test_divisions_follow_the_grid_and_lose_no_unit(units: int, capability: str, groups: int) -> None:
    grain = granularity(capability)
    rows = divide(units, capability, groups - 2)
    assert 1 <= len(rows) <= groups - 2
    for prefill, decode in rows:
        assert prefill + decode == units
        assert prefill >= decode >= 16
        assert (prefill - grain.smallest) % grain.step == 0
    assert sorted(rows, reverse=True) == rows


def test_the_choice_follows_the_decode_batch() -> None:
    chosen = [choose(8, decodes, True, 36, AUTOMATIC) for decodes in (1, 6, 12, 18, 24, 30, 36, 64)]
    assert chosen == [1, 1, 2, 3, 4, 5, 6, 6]
    assert choose(8, 32, False, 36, AUTOMATIC) == 7
    assert choose(8, 0, True, 36, AUTOMATIC) == 0


@given(
    decodes=st.integers(1, 500),
    more=st.integers(0, 500),
    divisor=st.integers(1, 200),
    count=st.integers(3, 12),
)
def test_more_decodes_never_get_a_smaller_share(decodes: int, more: int, divisor: int, count: int) -> None:
    group = choose(count, decodes, True, divisor, AUTOMATIC)
    assert 1 <= group <= choose(count, decodes + more, True, divisor, AUTOMATIC) <= count - 2


def test_manual_rows_are_chosen_by_threshold() -> None:
    groups = stream_groups(132, "9.0", manual_divisions=H200_ROWS)
    count = len(groups.divisions)
    chosen = [choose(count, decodes, True, 36, groups.thresholds) for decodes in (1, 4, 5, 14, 15, 24, 25, 900)]
    assert chosen == [1, 1, 2, 3, 4, 5, 6, 6]
    assert groups.divisions[6].tolist() == [56, 76]


def test_a_table_is_one_even_where_its_thresholds_are_0() -> None:
    groups = stream_groups(132, "9.0", sm_group_num=4, manual_divisions=((104, 28, 0), (96, 36, 0)))
    assert choose(4, 1, True, 36, groups.thresholds) == 2
    assert choose(4, 1, True, 36, stream_groups(132, "9.0", sm_group_num=4).thresholds) == 1


def test_a_batch_below_every_threshold_uses_the_first_division() -> None:
    groups = stream_groups(132, "9.0", sm_group_num=4, manual_divisions=((104, 28, 8), (96, 36, 16)))
    assert choose(4, 3, True, 36, groups.thresholds) == 1


def test_manual_rows_must_be_one_a_group() -> None:
    with pytest.raises(SpecError, match="accepted: 6 rows"):
        stream_groups(132, "9.0", manual_divisions=H200_ROWS[:5])


def test_manual_rows_must_add_up() -> None:
    with pytest.raises(SpecError, match="add up to 132"):
        stream_groups(132, "9.0", sm_group_num=3, manual_divisions=((104, 20, 1),))


def test_a_division_off_the_grid_is_refused() -> None:
    with pytest.raises(SpecError, match="multiple of 8"):
        fixed_groups(132, "9.0", 100, 32)


def test_fewer_than_three_groups_are_refused() -> None:
    with pytest.raises(SpecError, match="sm_group_num"):
        stream_groups(132, "9.0", sm_group_num=2)


def test_a_fixed_split_is_used_for_every_batch() -> None:
    groups = fixed_groups(132, "9.0", 80, 52)
    assert groups.divisions.tolist() == [[132, 0], [80, 52], [0, 132]]
    assert {choose(3, decodes, True, 36, groups.thresholds) for decodes in (1, 40, 400)} == {1}


def test_the_tbt_chooser_takes_the_smallest_share_that_keeps_the_limit() -> None:
    units = stream_groups(132, "9.0").divisions[:, 1].copy()
    seconds = np.array([np.inf, 0.030, 0.024, 0.019, 0.015, 0.012, 0.011, 0.009])
    assert choose_for_tbt(units, seconds, 0.020) == 3
    assert choose_for_tbt(units, seconds, 0.050) == 1
    assert choose_for_tbt(units, seconds, 0.001) == 6


@given(seconds=st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=10), limit=st.floats(1e-3, 1.0))
def test_the_tbt_chooser_never_wastes_or_misses(seconds: list[float], limit: float) -> None:
    units = np.arange(len(seconds) + 2, dtype=np.int64)[::-1].copy()
    group = choose_for_tbt(units, np.array([0.0, *seconds, 0.0]), limit)
    keeping = [g for g, time in enumerate(seconds, 1) if time <= limit]
    assert group == (min(keeping, key=lambda g: units[g]) if keeping else 1)


def test_layers_a_round_keep_the_token_budget() -> None:
    layers = [layers_per_round(tokens, 36, 65536) for tokens in (0, 512, 8192, 32768, 131072)]
    assert layers == [36, 36, 8, 2, 1]
