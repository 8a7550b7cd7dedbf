import numpy as np
import polars as pl
import pytest

import twofold
from twofold.plan.report.kinds import kind_of
from twofold.plan.report.scene import AFTER_S, BEFORE_S, longest_in_the_middle, rival_of, scene_of
from twofold.spec.workload import Workload


def best_of(plan):
    return {kind_of(candidate.deployment): candidate for candidate in reversed(plan.candidates)}


def test_the_rival_is_prefill_first_at_a_rate_that_both_sustain(plan, evidence):
    rival, chosen = evidence.scene.acts
    assert rival.kind == "prefill-first"
    assert chosen.deployment == plan.best.deployment
    measured = {champion.kind: champion.candidate for champion in evidence.champions}
    assert rival.deployment == measured["prefill-first"].deployment
    assert evidence.scene.rate == min(measured["prefill-first"].found.rate, plan.best.found.rate)


def test_the_rival_is_made_where_none_was_measured(plan):
    only_best = {kind: found for kind, found in best_of(plan).items() if kind not in ("prefill-first", "mixed")}
    rival, rate = rival_of(plan, only_best)
    assert str(rival) in ("2B,prefill-first", "1B,tp2,prefill-first")
    assert rate == 0.0
    assert scene_of(plan, only_best).rate == pytest.approx(plan.best.found.rate / 2)


def test_the_prompt_is_the_longest_of_the_middle():
    prompts = np.full(20, 100, np.int32)
    prompts[[0, 9, 19]] = 5000, 800, 9000
    assert longest_in_the_middle(Workload("made", np.arange(20.0), prompts, prompts)) == 9
    assert longest_in_the_middle(Workload("one", np.zeros(1), prompts[:1], prompts[:1])) == 0


def test_the_bars_are_those_of_the_window(evidence):
    for act in evidence.scene.acts:
        assert (act.bars["end"] > -BEFORE_S).all()
        assert (act.bars["start"] < AFTER_S).all()
        assert set(act.bars["lane"]) <= set(act.lanes)


def test_the_marked_steps_compute_the_whole_prompt_and_end_with_its_first_token(evidence):
    for act in evidence.scene.acts:
        marked = act.bars.filter("long")
        assert marked["prompt_tokens"].sum() >= evidence.scene.prompt_tokens
        assert marked["end"].max() == pytest.approx(act.first_token)


def test_whole_prompts_stall_decodes_for_longer_than_chunks(plan, make_plan):
    pair = make_plan(("2B,chunked=256", "2B,prefill-first"))
    rival, chosen = scene_of(pair, best_of(pair)).acts
    if chosen.kind == "prefill-first":
        rival, chosen = chosen, rival
    assert rival.longest_gap > chosen.longest_gap


def test_a_disaggregated_best_shows_both_sides_and_the_transfer(plan, make_plan):
    alone = make_plan(("1P1D",), requests=60)
    rival, chosen = scene_of(alone, best_of(alone)).acts
    assert rival.kind == "prefill-first"
    assert chosen.lanes == ["prefill replica", "KV transfer", "decode replica"]
    assert chosen.bars.filter(pl.col("what") == "KV transfer").height == 1
    assert twofold.deployment("1P1D", model="llama-3-8b", device="H100").groups == chosen.deployment.groups
