import pytest

from twofold.errors import SpecError
from twofold.plan.space import can_multiplex, candidates, fits
from twofold.spec import catalog
from twofold.spec.slo import Slo

SLO = Slo.parse("ttft<=0.5s, tpot<=20ms @90%")


def space(model: str, device: str, count: int):
    return candidates(catalog.model(model), catalog.device(device), count, SLO)


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_no_candidate_uses_more_devices_than_there_are_and_none_twice(count):
    found = space("llama-3-8b", "H100", count)
    texts = [str(deployment) for deployment in found]
    assert len(set(texts)) == len(texts)
    assert all(deployment.devices_total <= count for deployment in found)


def test_disaggregated_candidates_leave_no_room_for_another_replica():
    for deployment in space("llama-3-8b", "H100", 8):
        if len(deployment.groups) == 2:
            prefill, decode = deployment.groups
            left = 8 - deployment.devices_total
            assert left < min(prefill.tp * prefill.pp, decode.tp * decode.pp)


def test_every_policy_is_tried_once_a_shape():
    policies = {group.policy for deployment in space("llama-3-8b", "H100", 2) for group in deployment.groups}
    assert policies == {"prefill-first", "mixed", "chunked", "multiplexed", "decode"}


def test_one_device_has_no_disaggregation():
    assert all(len(deployment.groups) == 1 for deployment in space("llama-3-8b", "H100", 1))


def test_a_device_that_cannot_be_split_is_not_multiplexed():
    assert can_multiplex(catalog.device("H100"))
    assert not can_multiplex(catalog.device("MI300X"))
    assert all(group.policy != "multiplexed" for d in space("llama-3-8b", "MI300X", 1) for group in d.groups)


def test_shapes_that_do_not_fit_are_left_out():
    model, device = catalog.model("llama-3-70b"), catalog.device("H100")
    assert not fits(model, device, 1, 1)
    assert fits(model, device, 2, 1)
    assert all(group.tp * group.pp >= 2 for d in space("llama-3-70b", "H100", 4) for group in d.groups)


def test_a_budget_too_small_for_the_model_says_what_it_needs():
    with pytest.raises(SpecError, match="needs at least 2xH100"):
        space("llama-3-70b", "H100", 1)
