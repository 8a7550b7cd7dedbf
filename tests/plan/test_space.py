import time
from dataclasses import replace

import pytest

from twofold.cost.grids import Straight
from twofold.cost.measured import Key, Measured, Split, Tables
from twofold.cost.roofline import Roofline
from twofold.errors import SpecError
from twofold.plan.resources import parse_resources, price_of, watts_of
from twofold.plan.space import Space
from twofold.spec import catalog
from twofold.spec.slo import Slo

SLO = Slo.parse("ttft<=0.5s, tpot<=20ms @90%")


def space(model: str, gpus: str, within: str | None = None, **options) -> Space:
    return Space(catalog.model(model), parse_resources(gpus, within), SLO, **options)


def label(deployment) -> str:
    return f"{deployment} {deployment.mixed_pool}"


@pytest.mark.parametrize("gpus", ["1xH100", "2xH100", "3xH100", "8xH100", "2xH100 + 3xA100"])
def test_no_deployment_uses_more_devices_than_there_are_and_none_is_there_twice(gpus):
    tried = space("llama-3-8b", gpus)
    found = list(tried)
    assert len({label(each) for each in found}) == len(found)
    assert all(tried.resources.allow(each) for each in found)


def test_disaggregated_deployments_leave_no_room_for_another_replica():
    apart = [each for each in space("llama-3-8b", "8xH100") if len(each.groups) == 2]
    assert apart
    for deployment in apart:
        prefill, decode = deployment.groups
        assert 8 - deployment.devices_total < min(prefill.tp * prefill.pp, decode.tp * decode.pp)


def test_every_policy_and_every_sharing_is_tried():
    found = list(space("llama-3-8b", "4xH100"))
    policies = {group.policy for deployment in found for group in deployment.groups}
    assert policies == {"prefill-first", "mixed", "chunked", "multiplexed", "decode"}
    texts = {str(deployment) for deployment in found}
    assert {"4B,chunked=512", "2P2D", "1P + 1D + 2B,chunked=512"} <= texts
    assert {"2P2D True", "2P2D False"} <= {label(deployment) for deployment in found}


def test_where_splits_were_measured_no_others_are_tried():
    straight = Straight(1.0, 1e-3, 1e-6)
    tables = Tables(((1.0, 1e-2), (512.0, 4e-2)), (straight,), (straight,))

    def splits(*measured: Split) -> set[str | None]:
        rows = {Key("Llama-3-8B", "H100", tp, "bf16"): replace(tables, splits=measured) for tp in (1, 2)}
        found = space("llama-3-8b", "2xH100", roofline=Measured("own.json", rows, Roofline()))
        return {group.split for each in found for group in each.groups if group.policy == "multiplexed"}

    fixed = {split for split in splits() if split and ":" in split}
    assert len(splits()) > len(fixed) > 1
    known = min(fixed)
    prefill, decode = map(int, known.split(":"))
    assert splits(Split(prefill, decode, ((512.0, 0.6),), 0.9)) == {known}


def test_one_device_has_no_disaggregation():
    assert all(len(deployment.groups) == 1 for deployment in space("llama-3-8b", "1xH100"))


def test_shapes_that_do_not_fit_are_left_out():
    assert all(group.tp * group.pp >= 2 for each in space("llama-3-70b", "4xH100") for group in each.groups)
    with pytest.raises(SpecError, match="needs at least 2xH100"):
        list(space("llama-3-70b", "1xH100"))


@pytest.mark.parametrize(("within", "spent", "most"), [("10$/h", price_of, 10.0), ("2.2kW", watts_of, 2200.0)])
def test_a_budget_is_kept_and_used(within, spent, most):
    amounts = [spent(deployment) for deployment in space("llama-3-8b", "H100 + A100", within, capped=True)]
    assert max(amounts) <= most * (1 + 1e-9)
    assert max(amounts) > 0.8 * most


def test_two_kinds_serve_together():
    found = {str(each) for each in space("llama-3-8b", "1xH100 + 2xA100")}
    assert "1P@H100 + 2D@A100-80GB" in found
    assert "1P@A100-80GB + 1D@H100 + 1D@A100-80GB" in found
    assert "1B@A100-80GB,chunked=512 + 1B@H100,chunked=512" in {
        str(each) for each in space("llama-3-8b", "1xA100 + 1xH100")
    }


def test_kv_takes_the_link_inside_a_machine_where_it_can():
    for deployment in space("llama-3-8b", "16xH100"):
        inside = len(deployment.groups) > 1 and deployment.devices_total <= 8
        assert (deployment.link == "NVLink4") is inside


def test_smaller_ones_are_those_of_every_smaller_count():
    found, whole = space("llama-3-8b", "3xH100").with_smaller(2)
    assert {deployment.devices_total for deployment in found} == {1, 2, 3}
    assert len({label(each) for each in found}) == len(found)
    assert whole


def test_after_the_deadline_no_more_than_one_is_listed():
    now = time.monotonic()
    late, early = (space("llama-3-8b", "4xH100", deadline=at) for at in (now - 1.0, now + 600.0))
    assert (len(list(late)), late.listed.whole) == (1, False)
    assert (list(early), early.listed.whole) == (list(space("llama-3-8b", "4xH100")), True)
    smaller = late.with_smaller(2)
    assert (len(smaller.deployments), smaller.whole) == (3, False)
