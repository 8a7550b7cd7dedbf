"""A multiplexed replica: what a long prompt does to the decodes beside it, and when the split changes."""

import numpy as np
import pytest
from harness import DEVICE, MODEL, SLO, deploy, draw, gaps, listed, run, steps

from twofold.cost.roofline import cost_record, step_seconds
from twofold.cost.split import lane_speeds
from twofold.cost.step import Load, full_speed
from twofold.cost.step import step_seconds as seconds_of
from twofold.errors import SpecError
from twofold.spec import catalog

PROMPT, DECODES = 8000, 32


def beside(text, prompt=PROMPT, output=400, timeline=False):
    """32 decodes that are under way when a long prompt arrives."""
    rows = [(0.0, 64, output)] * DECODES + [(1.0, prompt, 2)]
    return run(text, listed(*rows), timeline=timeline, step_by_step=timeline)


def decode_step(units, context):
    """Seconds of a step of all decodes on ``units`` SMs of 132."""
    cost = cost_record(catalog.model(MODEL), catalog.device(DEVICE))[0]
    load = Load(DECODES, context, 0, 0, 0, DECODES)
    return float(
        seconds_of(cost, load, lane_speeds(1 - units / 132, units / 132, 0.5).decode if units else full_speed())
    )


def test_gaps_beside_a_long_prompt_are_those_of_the_decode_lane():
    longest = decode_step(52, DECODES * (64 + 400))
    assert beside("1B,multiplexed=80:52").max_tbt_s[:DECODES].max() <= longest + 1e-9
    assert beside("1B,prefill-first").max_tbt_s[:DECODES].max() > 10 * longest


def test_contention_slows_both_lanes():
    free, busy = beside("1B,multiplexed=80:52"), beside("1B,multiplexed=80:52,contention-decode=1.3")
    slow = beside("1B,multiplexed=80:52,contention-prefill=1.5")
    assert busy.max_tbt_s[0] == pytest.approx(1.3 * free.max_tbt_s[0], rel=0.02)
    assert slow.ttft_s[-1] > 1.2 * free.ttft_s[-1]


def test_a_prompt_alone_has_the_whole_device():
    result = run("1B,multiplexed=80:52", listed((0.0, PROMPT, 1)))
    assert result.ttft_s[0] == pytest.approx(
        step_seconds(catalog.model(MODEL), catalog.device(DEVICE), prompts=[(0, PROMPT)]), abs=1e-12
    )


def test_decodes_alone_have_the_whole_device():
    result = run("1B,multiplexed", listed(*[(0.0, 64, 50)] * DECODES))
    assert result.tbt_quantile(1e-9) == pytest.approx(decode_step(0, DECODES * 64), rel=1e-9)


def test_a_prompt_on_part_of_the_device_takes_the_inverse_of_its_share():
    whole = step_seconds(catalog.model(MODEL), catalog.device(DEVICE), prompts=[(0, PROMPT)])
    ttft = beside("1B,multiplexed=80:52").ttft_s[-1]
    assert 132 / 80 * (whole - 1e-3) < ttft < 132 / 80 * whole + 3 * decode_step(52, DECODES * 300)


@pytest.mark.parametrize(("budget", "rounds"), [(8000, 32), (16000, 16), (256000, 1)])
def test_layers_of_a_round_keep_the_token_budget(budget, rounds):
    """A round whose layers take longer than its decode step is caught up with: the prompt is seen done at its end."""
    line = steps(beside(f"1B,multiplexed=80:52,layer-budget={budget}", timeline=True))
    prompt = line[line.prompt_tokens == PROMPT][0]
    alongside = line[(line.decodes == DECODES) & (line.start >= prompt.start) & (line.end <= prompt.end + 1e-12)]
    assert len(alongside) >= rounds
    assert prompt.end - alongside[-1].end == pytest.approx(0.0, abs=1e-9)


def test_the_split_changes_only_when_a_batch_forms_merges_or_the_decodes_run_out():
    """To the decodes alone, to both, and back: four choices around one long prompt."""
    result = beside("1B,multiplexed=80:52", timeline=True)
    assert result.summary()["split_switches"] <= 4
    line = steps(result)
    prompt = line[line.prompt_tokens == PROMPT][0]
    during = line[(line.decodes == DECODES) & (line.start >= prompt.start) & (line.end <= prompt.end)]
    lengths = during.end - during.start
    slope = np.diff(lengths)
    assert slope.max() == pytest.approx(slope.min(), abs=1e-9)


@pytest.mark.parametrize(("decodes", "units"), [(5, 20), (13, 28), (18, 36), (24, 44), (30, 52), (40, 60)])
def test_the_group_is_the_one_that_the_chapter_gives_a_batch(decodes, units):
    result = run(
        "1B,multiplexed", listed(*([(0.0, 64, 300)] * decodes + [(1.0, PROMPT, 2)])), timeline=True, step_by_step=True
    )
    line = steps(result)
    prompt = line[line.prompt_tokens == PROMPT][0]
    first = line[(line.decodes == decodes) & (line.start >= prompt.start)][0]
    generated = int(((line.decodes == decodes) & (line.end <= first.start)).sum()) + 1
    cost = cost_record(catalog.model(MODEL), catalog.device(DEVICE))[0]
    load = Load(decodes, decodes * (64 + generated - 1), 0, 0, 0, decodes)
    expected = seconds_of(cost, load, lane_speeds(1 - units / 132, units / 132, 0.5).decode)
    assert first.end - first.start == pytest.approx(expected, rel=1e-6)


def test_a_split_for_an_slo_keeps_it_with_the_smallest_decode_share():
    loose, tight = (beside(f"1B,multiplexed=slo,tbt={ms}ms") for ms in (40, 9.5))
    assert loose.ttft_s[-1] < tight.ttft_s[-1]
    assert tight.max_tbt_s[:DECODES].max() < loose.max_tbt_s[:DECODES].max() < 0.041


def test_a_split_for_an_slo_needs_one():
    import twofold

    with pytest.raises(SpecError, match="split"):
        twofold.simulate(draw(5), deploy("1B,multiplexed=slo"))
    assert len(gaps(twofold.simulate(draw(5), deploy("1B,multiplexed=slo"), SLO))) > 0


def test_pipeline_stages_are_refused():
    with pytest.raises(SpecError, match="pp"):
        run("1B,multiplexed,pp2", draw(5))
