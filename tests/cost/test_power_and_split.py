"""Power caps and parts of a device."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.cost.roofline import cost_record
from twofold.cost.split import PREFILL_CONSTANT, WEIGHTS_CONSTANT, lane_speeds, saturating
from twofold.cost.step import Load, chunk_pairs, full_speed, stage_line, step_joules, step_seconds
from twofold.errors import SpecError
from twofold.spec import catalog

LLAMA, H100 = catalog.model("llama-3-8b"), catalog.device("H100")
DECODE = Load(64, 64 * 1024, 0, 0, 0, 64)
PREFILL = Load(0, 0, 8192, chunk_pairs(0, 8192), 0, 1)
SHARES = st.floats(0.01, 0.99)


def seconds_and_joules(load, cap):
    cost = cost_record(LLAMA, H100, power_cap_w=cap)[0]
    line = stage_line(cost, load, full_speed(), True)
    return step_seconds(cost, load, full_speed()), step_joules(cost, line, load.context)


def test_a_power_cap_slows_prefill_and_hardly_decode():
    assert seconds_and_joules(DECODE, 400.0)[0] < 1.01 * seconds_and_joules(DECODE, None)[0]
    assert seconds_and_joules(PREFILL, 400.0)[0] > 1.2 * seconds_and_joules(PREFILL, None)[0]


@pytest.mark.parametrize("load", [DECODE, PREFILL])
def test_a_power_cap_never_costs_energy_above_idle(load):
    caps = [None, 600.0, 500.0, 400.0, 300.0]
    seconds, joules = np.array([seconds_and_joules(load, cap) for cap in caps]).T
    assert (np.diff(seconds) >= 0).all()
    assert (np.diff(joules) <= 1e-9).all()


@pytest.mark.parametrize("cap", [None, 450.0])
def test_power_stays_below_the_limit(cap):
    for load in (DECODE, PREFILL):
        seconds, joules = seconds_and_joules(load, cap)
        assert 70.0 + joules / seconds <= (cap or 700.0) + 1e-9


@pytest.mark.parametrize("cap", [70.0, 10.0, 701.0])
def test_a_cap_that_the_device_does_not_have_is_refused(cap):
    with pytest.raises(SpecError, match="power_cap_w"):
        cost_record(LLAMA, H100, power_cap_w=cap)


@given(one=SHARES, two=SHARES, curve=st.sampled_from((None, 0.3, 0.5, 1.0)))
def test_more_units_are_never_slower(one, two, curve):
    low, high = sorted((one, two))
    for smaller, larger in zip(lane_speeds(low, low, curve), lane_speeds(high, high, curve), strict=True):
        assert all(0.0 < a <= b <= 1.0 for a, b in zip(smaller, larger, strict=True))


def test_the_measured_curves_start_steep_and_end_at_one():
    assert saturating(0.0, WEIGHTS_CONSTANT) == 0.0
    assert saturating(1.0, WEIGHTS_CONSTANT) == pytest.approx(1.0)
    assert saturating(0.25, WEIGHTS_CONSTANT) > saturating(0.25, PREFILL_CONSTANT) > 0.25
    speeds = lane_speeds(0.6, 0.4, None)
    assert speeds.prefill.flops == saturating(0.6, PREFILL_CONSTANT)
    assert speeds.decode.weights == saturating(0.4, WEIGHTS_CONSTANT)
    assert speeds.decode.kv == 0.4


def test_the_curve_of_the_chapter_saturates_reads_and_leaves_prefill_linear():
    speeds = lane_speeds(80 / 132, 52 / 132, 0.5)
    assert speeds.prefill == (80 / 132, 1.0, 1.0)
    assert speeds.decode.weights == speeds.decode.kv == pytest.approx(52 / 66)


def test_the_whole_device_has_full_speed_and_a_lane_without_units_is_harmless():
    for curve in (None, 0.5):
        speeds = lane_speeds(1.0, 0.0, curve)
        assert speeds.prefill == speeds.decode == (1.0, 1.0, 1.0)
