"""Simulations with DistServe's coefficients against what DistServe measured and published."""

import csv
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from twofold.cost.fitted import Coefficients, DecodePiece, Fitted, Key, PromptPiece
from twofold.cost.tables import read_costs
from twofold.plan.goodput import goodput
from twofold.simulate.run import simulate
from twofold.spec.deployment import Deployment
from twofold.spec.group import Group
from twofold.spec.notation import parse_deployment
from twofold.spec.slo import Slo
from twofold.spec.synthetic import Synthetic

DATA = Path(__file__).parents[3] / "shared" / "data" / "distserve"
SLO = Slo.parse("ttft<=0.25s, tpot<=0.1s @90%")
CONTEXT, REQUESTS, RUNS = 2048, 300, 5
"""OPT's context, to which the published data set was cut; requests of each published run; samples of such runs here."""


@pytest.fixture(scope="module")
def costs():
    if not DATA.is_dir():
        pytest.skip("the shared data are not here")
    return read_costs(DATA / "fit_coefficients.csv", "distserve")


@pytest.fixture(scope="module")
def sharegpt():
    """Lognormal lengths whose means, cut to the context, are the published 755.5 and 200.3 tokens."""
    drawn = Synthetic(
        rate=1.0, requests=6000, prompt="lognormal:1030:0.8", output="lognormal:247:1.1", seed=3
    ).workload()
    kept = drawn.picked(np.flatnonzero(drawn.prompt_tokens + drawn.output_tokens <= CONTEXT))
    assert kept.prompt_tokens.mean() == pytest.approx(755.5, rel=0.01)
    assert kept.output_tokens.mean() == pytest.approx(200.3, rel=0.01)
    return kept


def pair(prefill, decode):
    """Memory of the whole device, as in the published numbers of KV tokens; KV over NVLink."""
    shared = {"memory_fraction": 1.0, "max_batch": 1024}
    groups = (Group(role="prefill", tp=prefill, **shared), Group(role="decode", tp=decode, **shared))
    return Deployment(model="OPT-13B", device="A100", link="NVLink3", groups=groups)


def measured():
    with (DATA / "attainment_opt13b.csv").open() as lines:
        rows = [row for row in csv.DictReader(lines) if row["system"] == "DistServe"]
    return {float(row["total_rate_req_s"]): float(row["slo_attainment_pct"]) for row in rows}


def test_attainment_is_that_of_distserve_while_its_decodes_keep_up(costs, sharegpt):
    starts = np.linspace(0, len(sharegpt) - REQUESTS, RUNS).astype(int)
    runs = [sharegpt.picked(np.arange(start, start + REQUESTS)) for start in starts]
    points = measured()
    assert len(points) == 8
    for rate, published in points.items():
        results = [simulate(run.at_rate(rate), pair(2, 1), SLO, roofline=costs) for run in runs]
        attained = 100.0 * np.mean([result.met.mean() for result in results])
        assert attained == pytest.approx(published, abs=5.0 if rate <= 7.5 else 8.0), rate


def test_the_published_placement_is_the_best_pair_of_four_devices(costs, sharegpt):
    requests = sharegpt.head(REQUESTS)
    shapes = [shape for shape in product((1, 2, 4), repeat=2) if sum(shape) <= 4]
    found = {
        shape: goodput(requests, pair(*shape), SLO, guess=4.0, roofline=costs).rate / sum(shape) for shape in shapes
    }
    assert max(found, key=found.get) == (2, 1)


FIT = Fitted(
    "own.csv",
    {
        Key("OPT-13B", "A100-80GB", tp): Coefficients(
            [PromptPiece(0.0, 15e-3, 1e-4), PromptPiece(512.0, 5e-3, 1.2e-4)],
            [DecodePiece(0.0, 18e-3, 4e-5, 6e-7), DecodePiece(4.0, 16e-3, 5e-4, 5e-7)],
            pair_s=1e-8,
        )
        for tp in (1, 2)
    },
)


@pytest.mark.parametrize(
    "text", ["1B,chunked=256", "1B,chunked=60ms", "1B,mixed", "1B,multiplexed", "1P,tp2 + 1D", "1B,pp2"]
)
def test_running_ahead_changes_nothing_under_a_fit(text):
    workload = Synthetic(
        rate=4.0, requests=30, prompt="lognormal:300:0.6", output="lognormal:20:0.8", seed=3
    ).workload()
    deployment = parse_deployment(text, model="OPT-13B", device="A100")
    ahead, slow = (simulate(workload, deployment, roofline=FIT, step_by_step=step) for step in (False, True))
    np.testing.assert_array_equal(ahead.e2e_s, slow.e2e_s)
    assert ahead.energy_j == pytest.approx(slow.energy_j, rel=1e-9)
    assert ahead.completed.all()
