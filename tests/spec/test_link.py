import pytest

from twofold.errors import SpecError
from twofold.spec import catalog
from twofold.spec.link import Link


def test_effective_bandwidth_is_the_share_that_data_gets() -> None:
    assert Link(name="x", bandwidth=100.0, efficiency=0.5, latency_s=0.0).effective == 50.0


def test_bandwidth_and_latency_read_units() -> None:
    link = Link(name="x", bandwidth="400Gb/s", latency_s="2us")
    assert (link.bandwidth, link.latency_s) == (50e9, 2e-6)


def test_infiniband_of_the_lecture_reaches_40_gigabytes_a_second() -> None:
    assert catalog.link("InfiniBand").effective == pytest.approx(40e9)


@pytest.mark.parametrize(
    ("name", "gigabits"),
    [("IB-HDR", 200), ("IB-NDR", 400), ("IB-XDR", 800), ("RoCE-400", 400), ("25GbE", 25), ("100GbE", 100)],
)
def test_network_links_have_their_nominal_rate(name: str, gigabits: int) -> None:
    assert catalog.link(name).bandwidth * 8 == pytest.approx(gigabits * 1e9)


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"bandwidth": 0}, "bandwidth"), ({"efficiency": 1.5}, "efficiency"), ({"latency_s": -1}, "latency_s")],
)
def test_bad_field_is_named(changes: dict[str, object], field: str) -> None:
    with pytest.raises(SpecError) as caught:
        Link(**{"name": "x", "bandwidth": 1e9, "latency_s": 1e-6, **changes})
    assert caught.value.field == field
