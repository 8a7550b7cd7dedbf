"""DistServe's algorithms: what they enumerate, and that what they choose really sustains what they say."""

import pytest

import twofold
from twofold.errors import SpecError
from twofold.plan.distserve import algorithm_1, algorithm_2, shapes
from twofold.plan.goodput import goodput
from twofold.plan.phases import saturating_tokens
from twofold.spec import catalog
from twofold.spec.deployment import Deployment
from twofold.spec.slo import Slo
from twofold.spec.synthetic import Synthetic

SLO = "ttft<=0.25s, tpot<=0.1s"
MODEL, DEVICE = catalog.model("opt-13b"), catalog.device("A100")


@pytest.fixture(scope="module")
def workload():
    return Synthetic(rate=10, requests=200, prompt="lognormal:500:0.5", output="lognormal:60:0.5", seed=2).workload()


@pytest.fixture(scope="module")
def first(workload):
    return algorithm_1(workload, MODEL, DEVICE, SLO, 40.0)


@pytest.fixture(scope="module")
def second(workload):
    return algorithm_2(workload, MODEL, DEVICE, SLO, 40.0)


def test_shapes_are_whole_shards_that_fit():
    assert shapes(MODEL, DEVICE)[:2] == [(1, 1), (1, 2)]
    for tp, pp in shapes(catalog.model("opt-66b"), DEVICE, nodes=2):
        assert 72 % tp == 0
        assert 64 % pp == 0
        assert tp <= 8
        assert 2 <= tp * pp <= 16


def test_algorithm_1_tries_every_shape_for_either_phase(first):
    for table, role in zip(first.tables, ("prefill", "decode"), strict=True):
        tried = [group for instance in table for group in instance.groups]
        assert {group.role for group in tried} == {role}
        assert sorted((group.tp, group.pp) for group in tried) == sorted(shapes(MODEL, DEVICE))
        assert [each.per_device for each in table] == sorted((each.per_device for each in table), reverse=True)


def test_prefill_instances_batch_up_to_l_m(first):
    for instance in first.tables[0]:
        (group,) = instance.groups
        assert group.prefill_batch_tokens == saturating_tokens(MODEL, DEVICE, tp=group.tp, pp=group.pp)


def test_each_phase_of_algorithm_1_is_at_least_as_good_as_the_pair(first, workload):
    """Together both phases must be in time for the same requests, so the slower one is the most there can be."""
    pair = Deployment(
        model=MODEL, device=DEVICE, groups=tuple(i.groups[0] for i in first.best), link="NVLink3", router="least-tokens"
    )
    together = goodput(workload, pair, Slo.parse(SLO)).rate
    assert 0.8 * min(i.found.rate for i in first.best) < together <= 1.05 * min(i.found.rate for i in first.best)


def test_the_placement_of_algorithm_1_sustains_its_rate(first, workload):
    result = twofold.simulate(workload.at_rate(first.rate), first.deployment(), SLO)
    assert result.summary()["attainment"] >= 0.9


def test_algorithm_2_keeps_stages_together_inside_machines(second):
    (units,) = second.tables
    for unit in units:
        prefill, decode = unit.groups
        assert prefill.pp == decode.pp
        assert (prefill.tp + decode.tp) * prefill.pp <= 8
    assert {(u.groups[0].tp, u.groups[1].tp) for u in units} >= {(1, 1), (2, 1), (1, 2), (4, 4)}
    assert second.link == catalog.link("NVLink3")


def test_algorithm_2_on_more_machines_has_longer_pipelines(workload):
    short = workload.head(20)
    two = algorithm_2(short, "opt-66b", DEVICE, "ttft<=5s, tpot<=0.2s", nodes=2)
    spread = [unit for unit in two.tables[0] if unit.devices > 8]
    assert spread
    for unit in spread:
        prefill, decode = unit.groups
        assert prefill.tp + decode.tp <= 8
        assert prefill.pp <= 2 * (8 // (prefill.tp + decode.tp))


def test_a_unit_of_algorithm_2_sustains_what_was_found(second, workload):
    unit = second.best[0]
    alone = Deployment(model=MODEL, device=DEVICE, groups=unit.groups, link="NVLink3")
    result = twofold.simulate(workload.at_rate(unit.goodput), alone, SLO)
    assert result.summary()["attainment"] >= 0.9
    assert unit.goodput <= unit.steady


def test_a_larger_target_needs_more_of_the_same(first):
    assert [i.groups for i in first.best] == [(g.replaced(count=1),) for g in first.deployment(400.0).groups]
    assert first.devices(400.0) > first.devices(4.0)


def test_the_target_is_the_rate_of_the_workload_when_none_is_given(workload):
    assert algorithm_1(workload, MODEL, DEVICE, SLO, among=[(1, 1)]).rate == workload.rate


def test_options_go_to_both_phases(workload):
    placed = algorithm_1(workload, MODEL, DEVICE, SLO, among=[(1, 1)], options={"admission": "reserve"})
    assert {i.groups[0].admission for i in placed.best} == {"reserve"}


@pytest.mark.parametrize(
    ("model", "device", "slo", "message"),
    [
        ("opt-13b", "A100", "ttft<=1ms, tpot<=0.1s", "ttft stops it"),
        ("opt-13b", "A100", "ttft<=1s, tpot<=1ms", "tpot stops it"),
        ("opt-175b", "L4", SLO, "does not fit"),
        ("opt-13b", "A100", "ttft<=1s", "each phase is simulated alone"),
    ],
)
def test_what_cannot_be_placed_is_said_in_one_line(workload, model, device, slo, message):
    with pytest.raises(SpecError, match=message) as error:
        algorithm_1(workload.head(20), model, device, slo)
    assert "\n" not in str(error.value)
