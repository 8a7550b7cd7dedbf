import pytest
from hypothesis import given
from hypothesis import strategies as st

import twofold
from twofold.errors import SpecError
from twofold.plan.resources import parse_resources, price_of, read_amount, watts_of
from twofold.spec import catalog

H100, A100 = catalog.device("H100"), catalog.device("A100-80GB")


def deployed(text: str, **options):
    return twofold.deployment(text, **{"model": "llama-3-8b", "device": "H100"} | options)


@pytest.mark.parametrize(
    ("gpus", "counts"),
    [
        ("8xH100", {"H100": 8}),
        ("8xH100 + 16xA100", {"H100": 8, "A100-80GB": 16}),
        ("8 x H100+ 2×H100", {"H100": 10}),
        ("8xH100 + 2xh100", {"H100": 10}),
        ("H100 + A100", {"H100": None, "A100-80GB": None}),
        ({"H100": 3, "L4": None}, {"H100": 3, "L4": None}),
    ],
)
def test_devices_are_counted_by_kind(gpus, counts):
    assert parse_resources(gpus).counts() == counts


@pytest.mark.parametrize(
    "gpus", ["", "8", "8x", "x H100", "0xH100", "-1xH100", "8xH1000", "8xH100 +", "8xH100, 2xL4", "H100 + 8xH100"]
)
def test_what_cannot_be_read_is_said_in_one_line(gpus):
    with pytest.raises(SpecError) as error:
        parse_resources(gpus)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("150$/h", (150.0, None)),
        ("$150/h", (150.0, None)),
        ("12.5 usd/hour", (12.5, None)),
        ("40kW", (None, 40e3)),
        ("700W", (None, 700.0)),
    ],
)
def test_a_budget_is_money_or_power(text, amount):
    assert read_amount(text) == amount


@pytest.mark.parametrize("text", ["", "150", "150$", "0$/h", "0kW", "-3kW", "1.2.3kW", "nan$/h", "40kWh", "5 eur/h"])
def test_no_other_budget_is_read(text):
    with pytest.raises(SpecError) as error:
        parse_resources("H100", text)
    assert "\n" not in str(error.value)


@given(count=st.integers(1, 2000))
def test_a_budget_for_so_many_buys_just_so_many(count):
    dollars = parse_resources("H100", f"{count * H100.price_per_hour}$/h")
    watts = parse_resources("H100", f"{count * H100.tdp_w}W")
    for resources in (dollars, watts):
        assert resources.most(resources.kinds[0]) == count
        assert resources.allow(deployed(f"{count}B"))
        assert not resources.allow(deployed(f"{count + 1}B"))


def test_every_limit_counts():
    resources = parse_resources("8xH100 + A100", "30$/h")
    assert [resources.most(kind) for kind in resources.kinds] == [6, 13]
    assert resources.allow(deployed("4B + 5B@A100"))
    assert not resources.allow(deployed("4B + 6B@A100"))
    assert not parse_resources("2xH100 + 8xA100").allow(deployed("3B + 1B@A100"))


def test_there_must_be_an_end_to_what_can_be_bought():
    assert not parse_resources("H100").bounded
    assert not parse_resources("8xH100 + A100").bounded
    assert parse_resources("8xH100 + 2xA100").bounded
    assert parse_resources("H100", "10kW").bounded
    assert not parse_resources("this-cpu", "10$/h").bounded


def test_limited_takes_the_smaller_count():
    assert parse_resources("8xH100 + A100", "90$/h").limited(3).counts() == {"H100": 3, "A100-80GB": 3}
    assert parse_resources("2xH100").limited(3).counts() == {"H100": 2}


def test_price_and_power_of_two_kinds_and_a_cap():
    mixed = deployed("2P,tp2 + 3D@A100,cap=280W")
    assert price_of(mixed) == pytest.approx(4 * H100.price_per_hour + 3 * A100.price_per_hour)
    assert watts_of(mixed) == pytest.approx(4 * H100.tdp_w + 3 * 280)


def test_it_reads_as_it_was_written():
    assert str(parse_resources("8xH100 + A100", "150$/h")) == "8xH100 + A100-80GB within 150 $/h"
    assert str(parse_resources("8xH100", "5kW")) == "8xH100 within 5 kW"
