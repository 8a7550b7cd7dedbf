"""A cost model of measured tables: closed forms, the roofline on its own grid, what no step undercuts, lanes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.cost.floors import floors
from twofold.cost.grids import Beside, Sample, Straight, straight
from twofold.cost.measured import Key, Measured, Split, Tables
from twofold.cost.measured_record import thinned
from twofold.cost.roofline import Roofline, cost_record, step_seconds
from twofold.cost.split import lane_speeds, split_speeds
from twofold.cost.step import Load, Speed, at, chunk_pairs, full_speed, stage_line, stage_seconds, step_joules
from twofold.cost.step import step_seconds as seconds_of
from twofold.errors import SpecError
from twofold.spec import catalog

MODEL, H100 = catalog.model("llama-3-8b"), catalog.device("H100")
KEY = Key(MODEL.name, H100.name, 1, "bf16")
FULL = full_speed()
BESIDE = Beside(
    np.array([1.0, 8.0]), np.array([100.0, 900.0]), np.array([[2e-3, 4e-3], [3e-3, 9e-3]]), np.array([1e-6, 2e-6])
)
TABLES = Tables(
    dense=((1.0, 10e-3), (64.0, 12e-3), (512.0, 40e-3)),
    prompts=(Straight(16.0, 1e-3, 1e-6), Straight(512.0, 2e-3, 8e-6)),
    decodes=(Straight(1.0, 1e-3, 1e-6), Straight(8.0, 2e-3, 5e-6)),
    rows=((1.0, 1e-3), (9.0, 2e-3)),
    sequences=((1.0, 1e-4), (11.0, 1.1e-3)),
    beside=BESIDE,
    step_s=5e-4,
    layer_s=1e-5,
)
OWN = Measured("own.json", {KEY: TABLES})
COST = OWN.record(MODEL, H100)[0]
HOST = 5e-4 + 32 * 1e-5


def dense(tokens):
    return float(np.interp(tokens, *np.array(TABLES.dense).T))


def after(rows, sequences):
    return (1e-3 + 1e-3 * (rows - 1) / 8 if rows else 0.0) + 1e-4 * sequences


@pytest.mark.parametrize("count", [1, 3, 8])
def test_decodes_take_the_sum_of_their_parts(count):
    base, each = np.interp(count, [1, 8], [1e-3, 2e-3]), np.interp(count, [1, 8], [1e-6, 5e-6])
    expected = HOST + dense(count) + after(count, count) + base + each * 700
    assert step_seconds(MODEL, H100, decode_contexts=[700] * count, roofline=OWN) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("start", [0, 4000])
@pytest.mark.parametrize("tokens", [16, 264, 512])
def test_a_chunk_takes_the_sum_of_its_parts(start, tokens):
    base, each = np.interp(tokens, [16, 512], [1e-3, 2e-3]), np.interp(tokens, [16, 512], [1e-6, 8e-6])
    expected = HOST + dense(tokens) + after(1, 1) + base + each * (start + tokens / 2)
    assert step_seconds(MODEL, H100, prompts=[(start, tokens)], roofline=OWN) == pytest.approx(expected, rel=1e-12)


def test_decodes_beside_a_prompt_take_what_was_measured_beside_it():
    expected = HOST + dense(68) + after(5, 5) + np.interp(64, [16, 512], [1e-3, 2e-3])
    expected += np.interp(64, [16, 512], [1e-6, 8e-6]) * 32
    middle = np.array([2e-3, 4e-3]) + 3 / 7 * np.array([1e-3, 5e-3])
    expected += middle.mean() + (1e-6 + 3 / 7 * 1e-6) * 64
    found = step_seconds(MODEL, H100, prompts=[(0, 64)], decode_contexts=[500] * 4, roofline=OWN)
    assert found == pytest.approx(expected, rel=1e-12)


def test_prompts_of_one_step_are_told_from_one_long_prompt_by_their_pairs():
    one, four = (step_seconds(MODEL, H100, prompts=[(0, 512 // n)] * n, roofline=OWN) for n in (1, 4))
    assert one - four == pytest.approx(8e-6 * (256 - 64) - after(4, 4) + after(1, 1), rel=1e-9)


@given(
    gaps=st.lists(st.floats(0.2, 400.0), min_size=2, max_size=60),
    tokens=st.lists(st.integers(1, 9000), min_size=20, max_size=20),
)
def test_a_look_up_is_a_straight_line_between_points_wherever_they_are(gaps, tokens):
    places = np.cumsum(gaps)
    values = 1e-3 * (1.0 + np.sqrt(places))
    nothing = (Straight(1.0, 0.0, 0.0),)
    tables = Tables(tuple(zip(places, values, strict=True)), nothing, nothing)
    cost = Measured("own.json", {KEY: tables}).record(MODEL, H100)[0]
    for count in tokens:
        if count <= places[-1]:
            expected = float(np.interp(count, places, values))
            assert seconds_of(cost, Load(0, 0, count, 0, 0, 0), FULL) == pytest.approx(expected, rel=1e-12)


@given(gaps=st.lists(st.floats(0.2, 900.0), min_size=2, max_size=27), context=st.integers(0, 30_000))
def test_contexts_beside_prompts_are_looked_up_wherever_they_are(gaps, context):
    contexts = np.cumsum(gaps)
    seconds = np.outer([1e-3, 2e-3], 1.0 + np.sqrt(contexts))
    beside = Beside(np.array([1.0, 5.0]), contexts, seconds, np.zeros(2))
    cost = Measured("own.json", {KEY: replace(TABLES, beside=beside)}).record(MODEL, H100)[0]
    none = Measured("own.json", {KEY: replace(TABLES, beside=beside._replace(seconds=0.0 * seconds))}).record(
        MODEL, H100
    )[0]
    load = Load(3, min(context, int(3 * contexts[-1])), 64, chunk_pairs(0, 64), 0, 3)
    found = seconds_of(cost, load, FULL) - seconds_of(none, load, FULL)
    assert found == pytest.approx(float(np.interp(load.context / 3, contexts, seconds.mean(axis=0))), rel=1e-9)


def uneven(share, load, speed=FULL):
    cost = Measured("own.json", {KEY: replace(TABLES, longest_share=share)}).record(MODEL, H100)[0]
    return seconds_of(cost, load, speed)


@pytest.mark.parametrize("chunk", [0, 64])
def test_uneven_decodes_take_what_even_ones_would_nearer_to_the_longest(chunk):
    load = Load(4, 1600, chunk, chunk_pairs(0, chunk), 0, 4 + (chunk > 0), 800)
    assert uneven(0.0, load) == seconds_of(COST, load._replace(longest=0), FULL)
    assert uneven(0.25, load) == pytest.approx(uneven(0.0, load._replace(context=4 * 500)), rel=1e-12)
    assert uneven(0.25, load._replace(longest=400)) == uneven(0.0, load)


def test_a_lane_reads_the_longest_context_as_it_reads_all_kv():
    load, slow = Load(4, 1600, 0, 0, 0, 4, 800), Speed(0.5, 0.8, 0.25)
    more = [uneven(0.25, load, speed) - uneven(0.0, load, speed) for speed in (FULL, slow)]
    assert more[1] == pytest.approx(more[0] / 0.25)


def test_uneven_decodes_are_as_uneven_after_a_run_of_steps():
    cost = Measured("own.json", {KEY: replace(TABLES, longest_share=0.25)}).record(MODEL, H100)[0]
    first, later = (Load(4, 1600 + 4 * more, 0, 0, 0, 4, 800 + more) for more in (0, 100))
    line = stage_line(cost, first, FULL, True)
    assert at(line, later.context) == pytest.approx(seconds_of(cost, later, FULL), rel=1e-12)


def test_a_chunk_without_a_last_token_has_no_logits_and_is_a_sequence_all_the_same():
    load = Load(0, 0, 64, chunk_pairs(0, 64), 0, 0)
    expected = HOST + dense(64) + after(0, 1) + np.interp(64, [16, 512], [1e-3, 2e-3])
    assert seconds_of(COST, load, FULL) == pytest.approx(expected + np.interp(64, [16, 512], [1e-6, 8e-6]) * 32)


def test_beyond_its_tables_it_grows_as_the_roofline():
    plain = Measured("own", {KEY: Tables(TABLES.dense, TABLES.prompts, TABLES.decodes)}).record(MODEL, H100)[0]
    roofline = Roofline(step_overhead_s=0.0).record(MODEL, H100)[0]
    for tokens in (2048, 100_000):
        load, last = Load(0, 0, tokens, 0, 0, 0), Load(0, 0, 512, 0, 0, 0)
        ratio = stage_seconds(roofline, load, FULL, False) / stage_seconds(roofline, last, FULL, False)
        attention = 2e-3 * tokens / 512
        assert seconds_of(plain, load, FULL) - attention == pytest.approx(40e-3 * ratio, rel=0.02)
    decodes = [seconds_of(plain, Load(n, 0, 0, 0, 0, 0), FULL) - dense(n) for n in (8, 64)]
    assert decodes[1] == pytest.approx(8 * decodes[0])


def test_stages_share_the_layers_and_the_last_has_the_logits():
    cost = OWN.record(MODEL, H100, pp=2)[0]
    load = Load(4, 2000, 0, 0, 0, 4)
    middle, last = stage_seconds(cost, load, FULL, False), stage_seconds(cost, load, FULL, True)
    assert last - middle == pytest.approx(after(4, 4))
    assert middle + last == pytest.approx(seconds_of(COST, load, FULL))


def test_a_table_of_the_roofline_is_the_roofline_on_its_points():
    constants = Roofline(step_overhead_s=0.0)
    record = constants.record(MODEL, H100)[0]

    def at_once(load):
        return stage_seconds(record, load, FULL, True)

    sizes, contexts = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0], [128.0, 1024.0, 8192.0]
    bare = {n: at_once(Load(int(n), 0, 0, 0, 0, int(n))) for n in sizes}
    samples = [
        Sample(n, k, at_once(Load(int(n), int(n * k), 0, 0, 0, int(n))) - bare[n]) for n in sizes for k in contexts
    ]
    tables = Tables(tuple(bare.items()), (Straight(1.0, 0.0, 0.0),), straight(samples, bare.__getitem__))
    made = Measured("roofline", {KEY: tables}).record(MODEL, H100)[0]
    for n in sizes:
        for k in contexts:
            load = Load(int(n), int(n * k), 0, 0, 0, int(n))
            assert seconds_of(made, load, FULL) == pytest.approx(at_once(load), rel=1e-6)


@given(
    decodes=st.integers(0, 600), mean=st.integers(0, 20_000), tokens=st.integers(0, 5000), start=st.integers(0, 5000)
)
def test_no_step_undercuts_the_floors(decodes, mean, tokens, start):
    for cost in (
        COST,
        Measured("x", {KEY: Tables(TABLES.dense, TABLES.prompts, TABLES.decodes)}).record(MODEL, H100)[0],
    ):
        floor, pairs = floors(cost), chunk_pairs(start, tokens)
        load = Load(decodes, decodes * mean, tokens, pairs, start, decodes)
        work, seconds = floor.request_s * decodes + floor.context_s * load.context, seconds_of(cost, load, FULL)
        if decodes:
            assert seconds >= floor.decode_s + work - 1e-12
        if tokens or decodes:
            assert seconds >= floor.bare_s + work - 1e-12
            assert seconds >= floor.fixed_s + floor.prompt_token_s * tokens + floor.pair_s * pairs + work - 1e-12


def test_floors_are_more_than_nothing():
    assert (
        min(
            floors(Measured("x", {KEY: Tables(TABLES.dense, TABLES.prompts, TABLES.decodes)}).record(MODEL, H100)[0])[
                1:
            ]
        )
        > 0.0
    )


@given(decodes=st.integers(1, 300), context=st.integers(0, 200_000))
def test_the_time_of_decodes_is_a_line_in_their_context(decodes, context):
    line = stage_line(COST, Load(decodes, 0, 0, 0, 0, decodes), FULL, True)
    assert at(line, context) == pytest.approx(
        seconds_of(COST, Load(decodes, context, 0, 0, 0, decodes), FULL), rel=1e-12
    )


def test_a_lane_slows_each_part_by_its_own_speed():
    line, full = (stage_line(COST, Load(8, 800, 0, 0, 0, 8), speed, True) for speed in (Speed(0.5, 0.8, 0.25), FULL))
    assert line.bytes - HOST == pytest.approx((full.bytes - HOST) / 0.8)
    assert line.bytes_slope == pytest.approx(full.bytes_slope / 0.25)


def test_prompts_draw_more_than_decodes_and_nothing_more_than_the_limit():
    watts = []
    for load in (Load(0, 0, 512, chunk_pairs(0, 512), 0, 1), Load(8, 4000, 0, 0, 0, 8)):
        line = stage_line(COST, load, FULL, True)
        watts.append(step_joules(COST, line, load.context) / seconds_of(COST, load, FULL) + COST.idle_w)
    assert COST.limit_w + 1e-9 >= watts[0] > watts[1] > COST.idle_w


def test_measured_splits_replace_the_curves_of_the_device():
    splits = (Split(80, 52, ((64.0, 0.6), (512.0, 0.48)), 0.9, 1.2, 1.5), Split(100, 32, ((1.0, 0.8),), 0.7))
    cost = Measured("own", {KEY: Tables(TABLES.dense, TABLES.prompts, TABLES.decodes, splits=splits)}).record(
        MODEL, H100
    )[0]
    speeds = split_speeds(cost, 80, 52, 132, 0.5)
    assert speeds.prefill == pytest.approx((0.5, 0.5, 0.5))
    assert speeds.decode == pytest.approx((0.6, 0.6, 0.6))
    assert speeds.by_size == ((64.0, pytest.approx(0.5)), (512.0, pytest.approx(0.4)))
    assert split_speeds(cost, 132, 0, 132, 0.5) == lane_speeds(1.0, 0.0, 0.5)
    assert split_speeds(COST, 80, 52, 132, 0.5) == lane_speeds(80 / 132, 52 / 132, 0.5)
    with pytest.raises(SpecError, match="80:52, 100:32"):
        split_speeds(cost, 90, 42, 132, 0.5)


def test_the_host_can_be_given_by_the_user():
    without = OWN.with_host(step_s=0.0, layer_s=0.0).record(MODEL, H100)[0]
    load = Load(4, 400, 0, 0, 0, 4)
    assert seconds_of(COST, load, FULL) - seconds_of(without, load, FULL) == pytest.approx(HOST)
    assert OWN.with_host(step_s=2e-3).rows[KEY].layer_s == 1e-5
    with pytest.raises(SpecError, match=r"cost\.layer_s"):
        OWN.with_host(layer_s=-1.0)


@pytest.mark.parametrize(
    ("device", "options", "said"),
    [
        ("A100", {}, "Llama-3-8B bf16 on H100 tp 1"),
        ("H100", {"tp": 2}, "Llama-3-8B bf16 on H100 tp 1"),
        ("H100", {"power_cap_w": 400.0}, "no cap"),
        ("H100", {"expert_parallel": True}, "expert"),
    ],
)
def test_what_was_not_measured_is_refused(device, options, said):
    with pytest.raises(SpecError, match=said):
        OWN.record(MODEL, catalog.device(device), **options)
    assert not OWN.knows(MODEL, catalog.device("A100"), 1)
    assert OWN.knows(MODEL, H100, 1)


def test_what_devices_exchange_is_the_rooflines_where_the_tables_lack_it():
    for apart in (False, True):
        rows = {KEY._replace(tp=2): Tables(TABLES.dense, TABLES.prompts, TABLES.decodes, apart=apart)}
        cost, roofline = Measured("x", rows).record(MODEL, H100, tp=2)[0], cost_record(MODEL, H100, tp=2)[0]
        assert cost.exchange_s == (roofline.exchange_s if apart else 0.0)


def test_too_many_points_lose_those_that_are_missed_least():
    points = [(float(x), float(x if x < 50 else 2 * x - 50)) for x in range(1, 101)]
    assert thinned(points, 3) == [points[0], points[49], points[-1]]
    assert thinned(points, 200) == points


def test_a_line_is_never_negative():
    assert straight([Sample(1.0, 1.0, 1.0), Sample(1.0, 2.0, 4.0)], lambda _: 0.0)[0].base_s == 0.0
    assert straight([Sample(1.0, 1.0, 4.0), Sample(1.0, 2.0, 1.0)], lambda _: 0.0)[0].each_s == 0.0
    assert straight([Sample(1.0, 2.0, 4.0)], lambda _: 0.0) == (Straight(1.0, 0.0, 2.0),)


def test_it_says_what_it_is_and_how_wrong():
    known = Measured(
        "own.json", {KEY: Tables(TABLES.dense, TABLES.prompts, TABLES.decodes, residuals={"decode": 0.02})}
    )
    assert known.describe() == "own.json: Llama-3-8B bf16 on H100 tp 1 (error, one sigma: decode 2.0 %)"
    assert known.error("decode", MODEL, H100) == 0.02
    assert known.error("mixed", MODEL, H100) is None
    assert Roofline().error("mixed", MODEL, H100) is None
