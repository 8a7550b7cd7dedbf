import pytest

import twofold
from twofold.errors import SpecError
from twofold.plan.objective import RATES, TARGETS, Objective
from twofold.plan.resources import price_of, watts_of

TWO = twofold.deployment("2P,tp2 + 1D,cap=500W", model="llama-3-8b", device="H100")


def test_rates_are_divided_by_what_they_take():
    weights = [Objective(name).weight(TWO) for name in RATES]
    assert weights == pytest.approx([1.0, 5.0, price_of(TWO), watts_of(TWO)])


def test_targets_spend_dollars_or_watts():
    assert Objective("cost", 5.0).spent(TWO) == price_of(TWO)
    assert Objective("pareto", 5.0).spent(TWO) == price_of(TWO)
    assert Objective("power", 5.0).spent(TWO) == watts_of(TWO)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("target", [None, 0.0, -1.0, float("inf"), float("nan")])
def test_a_target_objective_needs_a_rate(name, target):
    with pytest.raises(SpecError, match="target-rate"):
        Objective(name, target)


def test_no_other_objective_takes_one_and_no_other_name_is_known():
    with pytest.raises(SpecError, match="goes with the objectives cost, power, pareto"):
        Objective("goodput", 5.0)
    with pytest.raises(SpecError, match="accepted: goodput, "):
        Objective("speed")


def test_what_costs_nothing_cannot_be_weighed_by_its_price():
    free = twofold.deployment("1B", model="SmolLM2-135M", device="this-cpu")
    with pytest.raises(SpecError, match="price_per_hour"):
        Objective("goodput-per-dollar").weight(free)
