"""A fitted cost model: what steps of each kind take, in parts, in lanes and in stages, and what they draw."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.cost.fitted import CAP, Coefficients, DecodePiece, Fitted, Key, PromptPiece
from twofold.cost.floors import floors
from twofold.cost.roofline import cost_record, step_seconds
from twofold.cost.step import Load, Speed, chunk_pairs, full_speed, stage_line, stage_seconds, step_joules
from twofold.cost.step import step_seconds as seconds_of
from twofold.errors import SpecError
from twofold.spec import catalog

MODEL, A100 = catalog.model("opt-13b"), catalog.device("A100")
KEY = Key(MODEL.name, A100.name, 1)
PROMPT = [PromptPiece(0.0, 20e-3, 0.0), PromptPiece(100.0, 10e-3, 1e-4)]
DECODE = [DecodePiece(0.0, 15e-3, 4e-5, 6e-7), DecodePiece(95.0, 7e-3, 1.5e-4, 5e-7)]
ROW = Coefficients(PROMPT, DECODE, pair_s=1e-8)
FIT = Fitted("own.csv", {KEY: ROW, Key(MODEL.name, A100.name, 2): ROW, KEY._replace(capped=True): ROW})
COST = FIT.record(MODEL, A100)[0]
FULL = full_speed()
COUNTS = st.integers(1, 300)


def prompt(tokens):
    return 20e-3 if tokens < 100 else 10e-3 + 1e-4 * tokens


@pytest.mark.parametrize(("count", "piece"), [(1, 0), (94, 0), (95, 1), (200, 1)])
def test_a_decode_step_takes_its_piece_and_its_context(count, piece):
    _, base, request, context = DECODE[piece]
    expected = base + request * count + context * 700 * count
    assert step_seconds(MODEL, A100, decode_contexts=[700] * count, roofline=FIT) == pytest.approx(expected)


def test_a_lane_slows_each_part_by_its_own_speed():
    speed = Speed(0.5, 0.8, 0.25)
    line = stage_line(COST, Load(10, 4000, 0, 0, 0, 10), speed, True)
    assert line.bytes == pytest.approx((15e-3 + 4e-4) / 0.8)
    assert line.bytes_slope == pytest.approx(6e-7 / 0.25)
    assert stage_seconds(COST, Load(0, 0, 50, 1250, 0, 1), speed, True) == pytest.approx((20e-3 + 1.25e-5) / 0.5)


@given(tokens=st.integers(1, 5000), start=st.integers(0, 5000))
def test_a_chunk_takes_its_piece_and_its_pairs(tokens, start):
    pairs = chunk_pairs(start, tokens)
    seconds = step_seconds(MODEL, A100, prompts=[(start, tokens)], roofline=FIT)
    assert seconds == pytest.approx(prompt(tokens) + 1e-8 * pairs)


@given(decodes=COUNTS, context=st.integers(0, 200_000), tokens=st.integers(1, 5000))
def test_a_step_of_both_takes_the_sum_less_what_both_spend_anyway(decodes, context, tokens):
    alone = Load(0, 0, tokens, chunk_pairs(0, tokens), 0, 1), Load(decodes, context, 0, 0, 0, decodes)
    together = Load(decodes, context, tokens, chunk_pairs(0, tokens), 0, decodes + 1)
    parts = [seconds_of(COST, load, FULL) for load in alone]
    assert seconds_of(COST, together, FULL) == pytest.approx(sum(parts) - 15e-3)
    assert seconds_of(COST, together, FULL) >= max(parts) - 1e-12


@given(decodes=st.integers(0, 300), context=st.integers(0, 200_000), tokens=st.integers(0, 5000))
def test_no_step_undercuts_the_floors(decodes, context, tokens):
    floor, pairs = floors(COST), chunk_pairs(0, tokens)
    load = Load(decodes, context * (decodes > 0), tokens, pairs, 0, 1)
    work = floor.request_s * decodes + floor.context_s * load.context
    seconds = seconds_of(COST, load, FULL)
    if decodes:
        assert seconds >= floor.decode_s + work - 1e-12
    if tokens or decodes:
        assert seconds >= floor.fixed_s + floor.prompt_token_s * tokens + floor.pair_s * pairs + work - 1e-12


def test_floors_of_a_fit_of_one_piece_are_the_fit():
    lines = Coefficients([PromptPiece(0.0, 0.01, 1e-4)], [DecodePiece(0.0, 0.02, 1e-3, 1e-6)])
    found = floors(Fitted("x", {KEY: lines}).record(MODEL, A100)[0])
    assert found == pytest.approx((0.01, 0.02, 1e-4, 0.0, 1e-3, 1e-6, 0.01))


@given(stages=st.sampled_from((2, 4)), decodes=COUNTS, tokens=st.integers(1, 5000))
def test_stages_share_the_time_and_add_hops(stages, decodes, tokens):
    cost = FIT.record(MODEL, A100, pp=stages)[0]
    load = Load(decodes, 500 * decodes, tokens, chunk_pairs(0, tokens), 0, decodes + 1)
    for last in (False, True):
        assert stage_seconds(cost, load, FULL, last) == pytest.approx(seconds_of(COST, load, FULL) / stages)
    hops = (stages - 1) * (cost.hop_s + cost.hop_token_s * (decodes + tokens))
    assert seconds_of(cost, load, FULL) == pytest.approx(seconds_of(COST, load, FULL) + hops)


@pytest.mark.parametrize(
    ("load", "watts"),
    [(Load(0, 0, 500, 125_000, 0, 1), 380.0), (Load(8, 4000, 0, 0, 0, 8), 150.0)],
    ids=["prompts", "decodes"],
)
def test_steps_draw_what_was_measured(load, watts):
    row = Coefficients(PROMPT, DECODE, prompt_w=380.0, decode_w=150.0)
    cost = Fitted("x", {KEY._replace(tp=2): row}).record(MODEL, A100, tp=2)[0]
    line, seconds = stage_line(cost, load, FULL, True), seconds_of(cost, load, FULL)
    joules = step_joules(cost, line, load.context)
    assert joules / seconds / 2 + A100.idle_w == pytest.approx(watts)


def test_power_that_was_not_measured_is_that_of_the_roofline():
    roofline = cost_record(MODEL, A100)[0]
    assert (COST.compute_w, COST.memory_w) == (roofline.compute_w, roofline.memory_w)
    assert FIT.host_bytes_per_s == FIT.roofline.host_bytes_per_s
    assert FIT.disk_bytes_per_s == FIT.roofline.disk_bytes_per_s


@pytest.mark.parametrize(
    ("device", "options", "said"),
    [
        ("H100", {}, "OPT-13B on A100-80GB tp 1, 2"),
        ("A100", {"tp": 4}, "OPT-13B on A100-80GB tp 1, 2"),
        ("A100", {"tp": 2, "power_cap_w": 280.0}, "capped tp 1"),
        ("A100", {"power_cap_w": 200.0}, "280"),
        ("A100", {"expert_parallel": True}, "expert"),
    ],
)
def test_what_was_not_measured_is_refused_and_what_was_is_listed(device, options, said):
    with pytest.raises(SpecError, match=said):
        FIT.record(MODEL, catalog.device(device), **options)


def test_each_cost_model_says_what_it_is():
    assert FIT.describe() == "own.csv: OPT-13B on A100-80GB tp 1, 2; OPT-13B on A100-80GB capped tp 1"
    assert FIT.roofline.describe().startswith("roofline, flop_efficiency = 0.7, byte_efficiency = 0.8, ")


def test_what_it_knows_are_its_rows():
    assert [FIT.knows(MODEL, A100, tp) for tp in (1, 2, 4)] == [True, True, False]
    assert not FIT.knows(MODEL, catalog.device("H100"), 1)
    assert [FIT.knows(MODEL, A100, 1, cap) for cap in (280.0, 200.0, 400.0)] == [True, False, True]
    assert [FIT.roofline.knows(MODEL, A100, tp) for tp in (1, 3, 8)] == [True, False, True]


def test_a_capped_row_stands_for_one_cap():
    assert FIT.record(MODEL, A100, power_cap_w=CAP * A100.tdp_w)[0].limit_w == CAP * A100.tdp_w


def test_more_pieces_than_a_record_holds_are_refused():
    many = Coefficients([PromptPiece(float(i), 0.0, 1.0) for i in range(33)], DECODE)
    with pytest.raises(SpecError, match="1 to 32"):
        Fitted("x", {KEY: many}).record(MODEL, A100)
