import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.errors import SpecError
from twofold.spec.slo import METRICS, PercentileLimit, Slo

LIMIT = st.floats(1e-6, 1e5)
SHARE = st.floats(0.001, 1)


@st.composite
def slos(draw: st.DrawFn) -> Slo:
    limits = {f"{metric}_s": draw(st.none() | LIMIT) for metric in METRICS}
    percentile = st.builds(PercentileLimit, st.sampled_from(METRICS), st.floats(0.1, 100), LIMIT)
    least = 0 if any(limits.values()) else 1
    return Slo(
        **limits,
        attainment=draw(SHARE),
        percentiles=tuple(draw(st.lists(percentile, min_size=least, max_size=3))),
    )


@given(slos())
def test_the_text_of_an_slo_reads_back(slo: Slo) -> None:
    assert Slo.parse(str(slo)) == slo


@given(slos(), st.floats(0.1, 10))
def test_scaling_changes_every_limit_and_nothing_else(slo: Slo, factor: float) -> None:
    scaled = slo.scaled(factor)
    assert scaled.limits == {metric: limit * factor for metric, limit in slo.limits.items()}
    assert [p.limit_s for p in scaled.percentiles] == [p.limit_s * factor for p in slo.percentiles]
    assert scaled.attainment == slo.attainment


def test_the_usual_form() -> None:
    slo = Slo.parse("ttft<=0.5s, tpot<=20ms @90%")
    assert slo == Slo(ttft_s=0.5, tpot_s=0.02, attainment=0.9)
    assert str(slo) == "ttft<=0.5s, tpot<=20ms @90%"


def test_without_a_share_nine_in_ten_must_meet_it() -> None:
    assert Slo.parse("e2e <= 2min").attainment == 0.9
    assert Slo.parse("tbt≤1s@0.99").attainment == 0.99


def test_percentile_limits_in_both_spellings() -> None:
    expected = (PercentileLimit("tbt", 99, 0.1), PercentileLimit("ttft", 50, 1))
    assert Slo.parse("p99 tbt<=100ms, p50 ttft<=1s").percentiles == expected
    assert Slo.parse("tbt_p99<=100ms, ttft_p50<=1s").percentiles == expected
    assert Slo.parse("p99.9 e2e<=3s").percentiles[0].percentile == 99.9


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ttft",
        "ttft<0.5",
        "latency<=1s",
        "ttft<=0.5s,",
        "ttft<=0.5s @",
        "ttft<=1s @150%",
        "ttft<=1s @0",
        "ttft<=0s",
        "ttft<=-1s",
        "ttft<=1 parsec",
        "ttft<=1s, ttft<=2s",
        "p101 tbt<=1s",
        "p99 tbt_p99<=1s",
        "pxx tbt<=1s",
        "@90%",
    ],
)
def test_a_bad_slo_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        Slo.parse(text)
    assert "\n" not in str(caught.value)
