"""What follows from the tables of a placement: the best, whole instances, a deployment."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.errors import SpecError
from twofold.plan.goodput import Goodput
from twofold.plan.placement import Instance, Placement
from twofold.spec import catalog
from twofold.spec.group import Group

PREFILL = Group(role="prefill", tp=4, prefill_batch_tokens=137)
DECODE = Group(role="decode", tp=2, pp=2)


def found(*groups: Group, rate: float, steady: float = float("inf")) -> Instance:
    return Instance(groups, Goodput(rate, 0.95, "tpot", 9), steady)


def exercise_6(rate: float = 30.0) -> Placement:
    """Prefill 4 devices for 7.7 req/s, decode 4 for 43."""
    tables = ([found(PREFILL, rate=7.7)], [found(DECODE, rate=43.0), found(PREFILL, rate=1.0)])
    return Placement(catalog.model("opt-66b"), catalog.device("A100"), rate, tables)


def test_goodput_is_what_was_found_or_what_could_last():
    assert found(DECODE, rate=9.0).row()["limit"] == "tpot"
    flattered = found(DECODE, rate=900.0, steady=20.0)
    assert (flattered.goodput, flattered.per_device, flattered.row()["limit"]) == (20.0, 5.0, "steady state")


@given(rate=st.floats(0.01, 1e4))
def test_whole_instances_carry_the_rate_and_one_less_would_not(rate):
    placement = exercise_6(rate)
    for n, instance in zip(placement.counts(), placement.best, strict=True):
        assert n * instance.goodput >= rate * (1 - 1e-9)
        assert n == 1 or (n - 1) * instance.goodput < rate
    assert placement.devices() == sum(4 * n for n in placement.counts())


def test_the_deployment_is_those_instances():
    placement = exercise_6()
    assert placement.counts() == (4, 1)
    assert str(placement.deployment()) == "4P,tp4,lm=137 + 1D,tp2,pp2"
    assert placement.deployment(100.0).devices_total == placement.devices(100.0) == 13 * 4 + 3 * 4


def test_the_placement_is_json():
    written = json.loads(json.dumps(exercise_6().to_dict()))
    assert written["devices"] == 20
    assert [len(table) for table in written["tables"]] == [1, 2]
    assert written["best"][1]["instance"] == ["decode tp2 pp2"]


def test_a_rate_below_zero_is_refused():
    with pytest.raises(SpecError, match="rate"):
        exercise_6(-1.0).counts()
