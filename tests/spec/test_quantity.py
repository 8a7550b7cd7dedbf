import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.errors import SpecError
from twofold.spec import quantity

SIZES = st.integers(0, 2**53)
TIMES = st.floats(0, 1e9, allow_nan=False)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0.5s", 0.5),
        ("25ms", 0.025),
        ("20ms", 0.02),
        ("2min", 120),
        ("1h", 3600),
        ("100us", 1e-4),
        (3, 3),
        ("7", 7),
    ],
)
def test_durations(text: str | float, seconds: float) -> None:
    assert quantity.parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "ms", "5 parsecs", "-1s", "inf", "nan", "1s2", "1,5s", None, True, [1]])
def test_a_bad_duration_is_refused_by_name(text: object) -> None:
    with pytest.raises(SpecError, match=r"^ageing: (.* is not accepted|missing); write a time such as") as caught:
        quantity.parse_duration(text, "ageing")  # type: ignore[arg-type]
    assert caught.value.value is text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("80GB", 80 * 10**9),
        ("16GiB", 16 * 2**30),
        ("1.5kB", 1500),
        ("3T", 3 * 10**12),
        (12, 12),
        ("4096", 4096),
    ],
)
def test_sizes(text: str | int, size: int) -> None:
    assert quantity.parse_bytes(text) == size


@pytest.mark.parametrize("text", ["GB", "80XB", "-1GB", "80Gb/s"])
def test_a_bad_size_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="80GB or 16GiB"):
        quantity.parse_bytes(text)


@pytest.mark.parametrize(
    ("text", "rate"),
    [("400Gb/s", 50e9), ("400Gbps", 50e9), ("50GB/s", 50e9), ("1GiB/s", 2**30), (5e9, 5e9), ("8b/s", 1)],
)
def test_bandwidths_in_bits_and_bytes(text: str | float, rate: float) -> None:
    assert quantity.parse_bandwidth(text) == rate


@pytest.mark.parametrize("text", ["400G", "50GB", "50 furlongs/s"])
def test_a_bandwidth_without_its_unit_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="50GB/s or 400Gb/s"):
        quantity.parse_bandwidth(text)


def test_rates_and_watts() -> None:
    assert quantity.parse_rate("300/min") == 5
    assert quantity.parse_rate(2) == 2
    assert quantity.parse_watts("1.2kW") == 1200
    for bad in ("0", "-3", "5/week", "inf"):
        with pytest.raises(SpecError, match="rate above 0"):
            quantity.parse_rate(bad)


@given(TIMES)
def test_durations_read_back(seconds: float) -> None:
    assert quantity.parse_duration(quantity.format_duration(seconds)) == seconds


@given(SIZES)
def test_sizes_read_back(size: int) -> None:
    assert quantity.parse_bytes(quantity.format_bytes(size)) == size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0077, "7.70"),
        (0.0891, "89.1"),
        (1.25, "1,250"),
        (math.inf, "inf"),
        (math.nan, "-"),
        (0.0099999, "10.0"),
    ],
)
def test_milliseconds_on_screen(seconds: float, text: str) -> None:
    assert quantity.format_ms(seconds) == text
