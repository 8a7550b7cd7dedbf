from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import twofold
from twofold.plan.goodput import Goodput
from twofold.plan.report import evidence as module
from twofold.plan.report.evidence import LOADS, aim, for_each_request, gaps_within, metrics_of, share_of
from twofold.simulate.attainment import attainment_of, percentile_of
from twofold.spec.slo import Slo


def test_the_curves_pass_through_the_goodput_of_the_best(plan, evidence):
    curve = evidence.curves.filter(pl.col("kind") == evidence.champions[0].kind)
    assert curve["rate"].to_list() == pytest.approx([load * plan.best.found.rate for load in LOADS])
    at_goodput = curve.filter((pl.col("rate") / plan.best.found.rate - 1).abs() < 1e-9)
    assert at_goodput["share"].to_list() == [plan.best.found.attainment]
    assert evidence.target == 0.9 <= plan.best.found.attainment


def test_requests_that_keep_every_limit_are_the_share_of_the_offered_ones(evidence):
    assert (evidence.curves["within"] - evidence.curves["share"] * evidence.curves["rate"]).abs().max() < 1e-9


def test_phases_add_up_to_the_mean_time_of_a_request(plan, evidence):
    for champion in evidence.champions:
        deployment = champion.candidate.deployment
        result = twofold.simulate(plan.workload.at_rate(evidence.rate), deployment, plan.slo)
        spent = evidence.phases.filter(pl.col("kind") == champion.kind)["seconds"].sum()
        assert spent == pytest.approx(float(np.nanmean(result.e2e_s)))


def test_distributions_rise_and_percentiles_lie_on_them(evidence):
    for part in evidence.distributions.partition_by("kind", "metric"):
        assert part["seconds"].is_sorted()
    for row in evidence.percentiles.iter_rows(named=True):
        mine = (pl.col("kind") == row["kind"]) & (pl.col("metric") == row["metric"])
        below = evidence.distributions.filter(mine & (pl.col("share") <= 0.9))["seconds"].max()
        assert below == pytest.approx(row["p90"], rel=0.05)


def test_tails_divide_what_a_candidate_takes_by_what_it_serves(plan, evidence):
    for row, candidate in zip(evidence.tails.iter_rows(named=True), plan.candidates, strict=True):
        rate, deployment = candidate.found.rate, candidate.deployment
        result = twofold.simulate(plan.workload.at_rate(rate), deployment, plan.slo)
        assert row["usd"] == pytest.approx(candidate.row()["usd_per_hour"] / rate)
        assert row["joules"] == pytest.approx(result.energy_j / len(plan.workload))
        assert row["tbt_p99"] == result.tbt_quantile(0.99)
    assert evidence.tails["front"].any()


def test_gaps_are_counted_exactly(plan):
    deployment = twofold.deployment("1B,mixed", model="llama-3-8b", device="H100")
    result = twofold.simulate(plan.workload.head(80), deployment)
    for share in (0.1, 0.5, 0.9, 0.99):
        gap = result.tbt_quantile(share)
        assert gaps_within(result, gap * (1 + 1e-9)) >= share - 1e-9
        assert gaps_within(result, gap * (1 - 1e-6)) <= share + 1e-9
    assert gaps_within(result, 1e9) == 1.0
    assert gaps_within(result, 0.0) == 0.0


MIXED_SLO = "ttft<=0.3s, p99 tbt<=20ms, p50 e2e<=1.2s @90%"


@pytest.mark.parametrize(
    "slo", [MIXED_SLO, "ttft<=0.3s, tpot<=9ms @80%", "p99 tbt<=20ms", "p90 ttft<=0.3s, p50 tpot<=9ms"]
)
@pytest.mark.parametrize("rate", [5.0, 20.0, 40.0, 60.0, 80.0])
def test_the_share_reaches_the_aim_where_all_limits_hold(plan, slo, rate):
    limits = Slo.parse(slo)
    deployment = twofold.deployment("1B,mixed", model="llama-3-8b", device="H100")
    result = twofold.simulate(plan.workload.at_rate(rate), deployment)
    holds = all(percentile_of(result, each) <= each.limit_s for each in limits.percentiles)
    if limits.limits:
        holds = holds and attainment_of(result, limits) >= limits.attainment
    assert (share_of(result, limits) >= aim(limits)[0]) == holds


def test_limits_on_percentiles_become_limits_on_requests():
    slo = for_each_request(Slo.parse("ttft<=0.3s, p99 tbt<=20ms, p50 ttft<=0.1s @95%"))
    assert slo.limits == {"ttft": 0.1, "tbt": 0.02}
    assert slo.percentiles == ()
    assert slo.attainment == 0.95


def test_a_limited_metric_is_drawn():
    assert metrics_of(Slo.parse("e2e<=10s, p99 tpot<=20ms")) == ["ttft", "tbt", "e2e", "tpot"]


def test_a_candidate_that_sustains_nothing_has_no_tail(make_plan):
    pair = make_plan(("2B,chunked=512", "2B,prefill-first"), requests=60)
    nothing = replace(pair.candidates[-1], found=Goodput(0.0, 0.0, "tbt", 1))
    assert module._tails(replace(pair, candidates=[pair.best, nothing])).height == 1
