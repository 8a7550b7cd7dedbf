"""Splitwise's designs: what a machine takes, and how many machines a search finds."""

from pathlib import Path

import pytest

import twofold
from twofold.cost.tables import read_costs
from twofold.errors import SpecError
from twofold.plan.slowdown import Slowdown, times_alone
from twofold.plan.splitwise import DESIGNS, Design, provision, table_rows
from twofold.simulate.run import simulate
from twofold.spec import catalog
from twofold.spec.synthetic import Synthetic

SHARED = Path(__file__).parents[3] / "shared" / "data"
MODEL = catalog.model("llama-2-70b")
BASE_A, BASE_H, AA, HH, HA, CAPPED = DESIGNS
WORKLOAD = Synthetic(rate=1.0, requests=300, prompt="lognormal:1000:0.6", output="lognormal:100:0.6", seed=1).workload()


def keeps(provision_, rate):
    alone = times_alone(WORKLOAD, MODEL)
    result = simulate(WORKLOAD.at_rate(rate), provision_.deployment)
    return Slowdown().broken(result, alone) is None


@pytest.mark.parametrize(
    ("design", "usd", "watts"),
    [(AA, 17.6, 12400.0), (HH, 38.0, 22000.0), (HA, 17.6, 17200.0), (CAPPED, 38.0, 18700.0)],
)
def test_a_pair_of_machines_takes_what_splitwise_says(design, usd, watts):
    assert design.prices("usd")[1] == pytest.approx(usd)
    assert design.total("watts", 1, 1) == pytest.approx(watts)


def test_a_capped_design_caps_the_token_machines_only():
    prefill, decode = CAPPED.deployment(MODEL, 3, 2).groups
    assert (prefill.count, prefill.power_cap_w) == (3, None)
    assert (decode.count, decode.power_cap_w) == (2, pytest.approx(490.0))


def test_the_search_for_throughput_is_that_over_all_splits():
    (found,) = provision(WORKLOAD, MODEL, "throughput", watts=4 * 11000.0, designs=[HH], arrivals="trace")
    assert found.prompts + found.tokens == 4
    assert keeps(found, found.rate)
    for prompts in (1, 2, 3):
        if prompts != found.prompts:
            other = HH.deployment(MODEL, prompts, 4 - prompts)
            result = simulate(WORKLOAD.at_rate(1.021 * found.rate), other)
            assert Slowdown().broken(result, times_alone(WORKLOAD, MODEL)) is not None


def test_the_least_machines_keep_the_rate_and_one_less_does_not():
    (found,) = provision(WORKLOAD, MODEL, "cost", rate=8.0, designs=[HH], arrivals="trace")
    assert keeps(found, 8.0)
    alone = times_alone(WORKLOAD, MODEL)
    fewer = [(found.prompts - 1, found.tokens), (found.prompts, found.tokens - 1)]
    for prompts, tokens in fewer:
        if prompts and tokens:
            result = simulate(WORKLOAD.at_rate(8.0), HH.deployment(MODEL, prompts, tokens))
            assert Slowdown().broken(result, alone) is not None


def test_designs_are_ranked_and_rows_have_totals():
    found = provision(WORKLOAD, MODEL, "power", rate=6.0, designs=[BASE_A, HH, CAPPED])
    watts = [row["watts"] for row in table_rows(found)]
    assert watts == sorted(watts)
    for each, row in zip(found, table_rows(found), strict=True):
        assert row["usd_per_hour"] == each.design.total("usd", each.prompts, each.tokens)
        assert row["rate_req_s"] == 6.0


def test_a_budget_below_one_pair_finds_nothing():
    (found,) = provision(WORKLOAD, MODEL, "throughput", usd_per_hour=40.0, designs=[HH])
    assert (found.rate, found.prompts, found.tokens, found.deployment) == (0.0, 0, 0, None)


@pytest.mark.parametrize(
    ("objective", "budget"),
    [
        ("throughput", {}),
        ("throughput", {"rate": 3.0}),
        ("throughput", {"watts": 1.0, "usd_per_hour": 1.0}),
        ("cost", {"watts": 9.0}),
        ("cost", {"rate": 0.0}),
        ("beauty", {"rate": 1.0}),
    ],
)
def test_a_budget_that_does_not_fit_is_refused(objective, budget):
    with pytest.raises(SpecError, match=r"objective|budget"):
        provision(WORKLOAD, MODEL, objective, **budget)


def test_a_machine_of_unknown_power_is_refused():
    with pytest.raises(SpecError, match="H100"):
        Design("own", "H200", None).prices("watts")


def winners(trace, **budget):
    measured = SHARED / "splitwise" / "perf_model.csv"
    if not measured.is_file():
        pytest.skip("the shared data are not here")
    workload = twofold.read_workload(SHARED / "traces" / f"azure2023_{trace}.csv")
    found = provision(workload, "bloom-176b", "throughput", requests=1500, roofline=read_costs(measured), **budget)
    return {each.design.name: each.rate for each in found}


def test_who_wins_with_splitwises_measurements_at_equal_power():
    code = winners("code", watts=10 * 11000.0)
    assert code["Splitwise-HHcap"] == pytest.approx(code["Splitwise-HH"], rel=0.05)
    assert code["Splitwise-HH"] > code["Splitwise-AA"] > code["Baseline-H100"]
    assert code["Splitwise-HH"] > 1.4 * code["Baseline-H100"]
    assert code["Splitwise-AA"] > 2.15 * code["Baseline-A100"]
    talk = winners("conv", watts=10 * 11000.0)
    assert max(talk, key=talk.get) == "Splitwise-HHcap"
    assert talk["Splitwise-AA"] > 1.4 * talk["Baseline-A100"]


def test_at_equal_cost_older_machines_come_close():
    code = winners("code", usd_per_hour=10 * 38.0)
    assert code["Splitwise-AA"] > 0.9 * code["Splitwise-HH"]
    assert code["Splitwise-AA"] > 1.4 * code["Baseline-H100"]
