import pytest

import twofold
from twofold.errors import SpecError
from twofold.plan.improved import resources, with_more
from twofold.spec import catalog

H100 = catalog.device("H100")


def deployment(text: str, **options: object) -> twofold.deployment:
    return twofold.deployment(text, model="llama-3-8b", device="H100", **options)


@pytest.mark.parametrize(
    ("resource", "field"), [("compute", "peak_flops"), ("bandwidth", "bandwidth"), ("memory", "memory")]
)
def test_devices_have_a_quarter_more_of_one_thing(resource: str, field: str) -> None:
    more = with_more(deployment("1P@A100 + 1D"), resource)
    for group, before in zip(more.groups, (catalog.device("A100"), H100), strict=True):
        now, was = group.device.model_dump(), before.model_dump()
        assert {name for name in now if now[name] != was[name]} == {field}
    assert catalog.device(more.groups[1].device).flops("bf16") == H100.flops("bf16") * (
        1.25 if resource == "compute" else 1.0
    )


def test_batches_grow_to_a_whole_number() -> None:
    more = with_more(deployment("1P,batch=3 + 1D"), "batch")
    assert [group.max_batch for group in more.groups] == [4, 320]


def test_the_link_and_the_trunk_are_faster() -> None:
    more = with_more(deployment("1P1D", link="RoCE-100", fabric_bytes_per_s=1e9), "link")
    assert more.link.bandwidth == 1.25 * catalog.link("RoCE-100").bandwidth
    assert more.fabric_bytes_per_s == 1.25e9
    own = with_more(deployment("1P1D"), "link")
    assert own.link.bandwidth == 1.25 * catalog.link(H100.inter_link).bandwidth
    assert own.fabric_bytes_per_s is None


@pytest.mark.parametrize(("text", "there"), [("4B", False), ("1P1D", True), ("1P + 1D@A100", False)])
def test_a_link_is_a_resource_where_kv_crosses_one(text: str, there: bool) -> None:
    assert ("link" in resources(deployment(text))) == there
    assert "link" in resources(deployment("1P + 1D@A100", link="RoCE-100"))


def test_what_there_is_not_cannot_be_more() -> None:
    with pytest.raises(SpecError, match="compute, bandwidth, memory, batch"):
        with_more(deployment("4B"), "link")
