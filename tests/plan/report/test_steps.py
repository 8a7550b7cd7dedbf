import math

import polars as pl
import pytest

import twofold
from twofold.errors import SpecError
from twofold.plan.report.steps import TRANSFER, in_order, longest_gap, timeline_of, with_lanes


def run(plan, notation, **options):
    deployment = twofold.deployment(notation, model="llama-3-8b", device="H100")
    return twofold.simulate(plan.workload.head(40), deployment, **options)


@pytest.mark.parametrize("notation", ["1B,chunked=512", "1B,prefill-first", "1B,pp2,mixed", "1P1D"])
def test_the_timeline_has_every_step_and_no_step_over_another(plan, notation):
    lines = timeline_of(run(plan, notation, timeline=True, step_by_step=True))
    steps = lines.filter(pl.col("what") != TRANSFER)
    for stream in steps.partition_by("replica", "stream"):
        assert (stream["start"].shift(-1).drop_nulls() >= stream["end"][:-1] - 1e-9).all()
    assert steps["decodes"].sum() == int((plan.workload.head(40).output_tokens - 1).sum())
    assert steps["prompt_tokens"].sum() == int(plan.workload.head(40).prompt_tokens.sum())


@pytest.mark.parametrize(
    ("notation", "lanes"),
    [
        ("1B,chunked=512", ["replica"]),
        ("1B,multiplexed", ["prefill lane", "decode lane"]),
        ("1B,pp2,mixed", ["batch 1", "batch 2"]),
        ("1P1D", ["prefill replica", "KV transfer", "decode replica"]),
    ],
)
def test_lanes_have_names_in_the_order_of_a_request(plan, notation, lanes):
    result = run(plan, notation, timeline=True)
    assert in_order(with_lanes(result, timeline_of(result))["lane"]) == lanes


def test_every_transfer_names_its_request(plan):
    lines = timeline_of(run(plan, "1P1D", timeline=True))
    assert sorted(lines.filter(pl.col("what") == TRANSFER)["request"].unique()) == list(range(40))
    assert (lines.filter(pl.col("what") != TRANSFER)["request"] == -1).all()


def test_a_run_without_a_timeline_is_refused(plan):
    with pytest.raises(SpecError, match="timeline=True"):
        timeline_of(run(plan, "1B,mixed"))


def steps(*rows):
    return pl.DataFrame([(0, *row) for row in rows], schema=["stream", "start", "end", "decodes"], orient="row")


def test_a_prompt_between_two_decodes_makes_a_gap():
    assert longest_gap(steps((0.0, 0.1, 8), (0.1, 1.0, 0), (1.0, 1.1, 8))) == pytest.approx(1.0)


def test_a_pause_is_no_gap():
    assert math.isnan(longest_gap(steps((0.0, 0.1, 8), (0.9, 1.0, 8))))


def test_a_gap_before_the_arrival_does_not_count():
    assert longest_gap(steps((-1.0, -0.9, 1), (-0.9, -0.2, 1), (-0.2, 0.1, 1))) == pytest.approx(0.3)
