import pytest

from twofold.errors import SpecError
from twofold.plan.resources import Kind, parse_resources
from twofold.plan.shapes import CAPPED, Shape, can_multiplex, colocated, decode_side, fits, prefill_side, shapes_of
from twofold.spec import catalog
from twofold.spec.slo import Slo

H100 = catalog.device("H100")
SMALL, LARGE = catalog.model("llama-3-8b"), catalog.model("llama-3-70b")
SLO = Slo.parse("ttft<=0.5s, tpot<=20ms @90%")


def shape(device: str = "H100", tp: int = 1, pp: int = 1) -> Shape:
    return Shape(Kind(catalog.device(device), 8), tp, pp)


def test_all_shapes_hold_the_model_and_can_be_had():
    found = shapes_of(LARGE, parse_resources("4xH100"))
    assert {(each.tp, each.pp) for each in found} == {(1, 2), (1, 4), (2, 1), (2, 2), (4, 1)}
    assert all(fits(LARGE, H100, each.tp, each.pp) and each.devices <= 4 for each in found)


def test_tp_stays_in_a_machine_and_divides_the_heads():
    found = shapes_of(catalog.model("Qwen2.5-0.5B"), parse_resources("64xH100"))
    assert {each.tp for each in found} == {1, 2}
    assert max(each.tp for each in shapes_of(SMALL, parse_resources("64xH100"))) == H100.devices_per_node


@pytest.mark.parametrize(
    ("model", "gpus", "needed"),
    [
        ("llama-3-70b", "1xH100", "needs at least 2xH100"),
        ("DeepSeek-V3", "8xL4", "does not fit on any number of L4"),
    ],
)
def test_what_is_too_small_says_what_is_needed(model, gpus, needed):
    with pytest.raises(SpecError, match=needed):
        shapes_of(catalog.model(model), parse_resources(gpus))


def test_colocated_policies_follow_the_slo_and_the_device():
    plain = list(colocated(shape(), Slo.parse("ttft<=1s")))
    limited = list(colocated(shape(), SLO))
    assert not [each for each in plain if "budget_s" in each or each.get("split") == "slo"]
    assert {"policy": "chunked", "budget_s": 0.02} in limited
    assert {"policy": "multiplexed", "split": "slo"} in limited
    assert len({str(each) for each in limited}) == len(limited)
    for other in (shape(pp=2), shape("MI300X")):
        assert "multiplexed" not in {each["policy"] for each in colocated(other, SLO)}


def test_every_option_makes_a_group():
    for options in colocated(shape(tp=2), SLO):
        assert shape(tp=2).group(3, **options).devices == 6
    for options in prefill_side():
        assert shape().group(2, "prefill", **options).role == "prefill"


def test_only_capped_decode_devices_are_capped():
    assert list(decode_side(shape(), False)) == [{}]
    assert list(decode_side(shape(), True)) == [{}, {"power_cap_w": float(round(CAPPED * H100.tdp_w))}]


def test_a_device_that_cannot_be_split_is_not_multiplexed():
    assert can_multiplex(H100)
    assert not can_multiplex(catalog.device("MI300X"))
