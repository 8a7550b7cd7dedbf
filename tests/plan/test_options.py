import math

import pytest
from planted import GRID

from twofold.plan.bounds import Bounds
from twofold.plan.objective import Objective
from twofold.plan.options import Way, ways
from twofold.plan.resources import parse_resources, price_of, watts_of
from twofold.plan.shapes import CAPPED
from twofold.plan.space import Space
from twofold.spec import catalog
from twofold.spec.slo import Slo
from twofold.spec.synthetic import Synthetic

SLO = Slo.parse("ttft<=1s, tpot<=50ms @90%")
WORKLOAD = Synthetic(rate=5, requests=400, prompt="fixed:800", output="fixed:60", seed=1).workload()


def ways_on(gpus: str, aim: Objective, *, slo: Slo = SLO, capped: bool = False) -> list[Way]:
    model = catalog.model("llama-3-8b")
    space = Space(model, parse_resources(gpus), slo, capped=capped)
    return list(ways(space, Bounds(WORKLOAD, model, slo, GRID), aim))


def test_a_way_is_one_side_for_both_phases_or_one_for_each() -> None:
    found = ways_on("2xH100", Objective("cost", 5.0))
    assert {tuple(side.role for side in way.sides) for way in found} == {("both",), ("prefill", "decode")}
    texts = [str(way.deployment((1,) * len(way.sides))) for way in found]
    assert len(set(texts)) == len(texts)


def test_prefill_and_decode_may_be_of_different_kinds() -> None:
    pairs = {
        tuple(side.shape.device.name for side in way.sides)
        for way in ways_on("H100 + A100-80GB", Objective("cost", 5.0))
        if len(way.sides) == 2
    }
    assert pairs == {(one, other) for one in ("H100", "A100-80GB") for other in ("H100", "A100-80GB")}


def test_counts_are_replicas_of_each_side() -> None:
    pair = next(way for way in ways_on("H100", Objective("cost", 5.0)) if len(way.sides) == 2)
    assert [(group.role, group.count) for group in pair.deployment((3, 2)).groups] == [("prefill", 3), ("decode", 2)]


@pytest.mark.parametrize(("name", "spent"), [("cost", price_of), ("pareto", price_of), ("power", watts_of)])
def test_what_counts_take_is_in_the_unit_of_the_objective(name: str, spent: object) -> None:
    for way in ways_on("2xH100", Objective(name, 5.0), capped=True):
        counts = (2,) * len(way.sides)
        assert callable(spent)
        assert way.spent(counts) == spent(way.deployment(counts))


def test_decode_devices_are_capped_where_power_counts() -> None:
    capped = [ways_on("2xH100", Objective("power", 5.0), capped=each) for each in (False, True)]
    caps = [
        {group.power_cap_w for way in each for group in way.deployment((1,) * len(way.sides)).groups} for each in capped
    ]
    assert caps == [{None}, {None, float(round(CAPPED * catalog.device("H100").tdp_w))}]


def test_a_higher_target_needs_as_many_replicas_or_more() -> None:
    for low, high in zip(*(ways_on("H100", Objective("cost", rate)) for rate in (5.0, 200.0)), strict=True):
        assert low.fewest is not None
        assert high.fewest is not None
        assert all(one <= other for one, other in zip(low.fewest, high.fewest, strict=True))
        assert low.floor <= high.floor == high.spent(high.fewest)


def test_a_way_beyond_the_resources_or_the_slo_cannot_serve() -> None:
    for found in (
        ways_on("1xH100", Objective("cost", 1e4)),
        ways_on("H100", Objective("cost", 5.0), slo=Slo.parse("ttft<=1us @90%")),
    ):
        assert {(way.fewest, way.floor) for way in found} == {(None, math.inf)}
