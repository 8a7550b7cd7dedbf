from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.errors import SpecError
from twofold.spec.arrivals import Arrivals

TRACES = Path(__file__).parents[2] / ".." / "shared" / "data" / "traces"
PROCESSES = [
    "poisson",
    "gamma:2",
    "gamma:0.5",
    "constant",
    "onoff:10:20",
    "onoff:1:3:0.25",
    "piecewise:0=5,60=1",
]


def times(text: str, rate: float | None, n: int, seed: int = 0) -> np.ndarray:
    return Arrivals.parse(text).generate(np.random.Generator(np.random.PCG64(seed)), rate, n)


@pytest.mark.parametrize(("text", "cv"), [("poisson", 1), ("gamma:2", 2), ("gamma:0.5", 0.5), ("constant", 0)])
def test_gaps_have_the_stated_rate_and_variation(text: str, cv: float) -> None:
    gaps = np.diff(times(text, 8.0, 200_000), prepend=0)
    assert gaps.mean() == pytest.approx(1 / 8, rel=0.02)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.03, abs=1e-6)


@given(st.sampled_from(PROCESSES), st.floats(0.1, 100), st.integers(0, 2**32), st.integers(1, 300))
def test_arrivals_never_go_back_and_longer_draws_begin_alike(text: str, rate: float, seed: int, n: int) -> None:
    drawn = times(text, rate, n, seed)
    assert len(drawn) == n
    assert drawn[0] >= 0
    assert (np.diff(drawn) >= 0).all()
    assert np.isfinite(drawn).all()
    assert (times(text, rate, n + 40, seed)[:n] == drawn).all()


@given(st.sampled_from(["poisson", "gamma:2", "constant"]), st.integers(0, 2**32))
def test_another_rate_is_the_same_stream_at_another_speed(text: str, seed: int) -> None:
    assert times(text, 4.0, 50, seed) == pytest.approx(times(text, 1.0, 50, seed) / 4)


def test_a_profile_has_its_own_rates() -> None:
    drawn = times("piecewise:0=5,600=10", None, 20_000)
    assert (drawn < 600).sum() == pytest.approx(3000, rel=0.06)
    assert ((drawn >= 600) & (drawn < 1200)).sum() == pytest.approx(6000, rel=0.05)


def test_a_rate_scales_a_profile_to_that_mean() -> None:
    drawn = times("piecewise:0=5,600=10", 15.0, 40_000)
    assert (drawn < 600).sum() == pytest.approx(6000, rel=0.04)


def test_nothing_arrives_while_a_profile_is_at_zero() -> None:
    drawn = times("piecewise:0=5,10=0,20=0,30=5", None, 500)
    assert not ((drawn > 10) & (drawn < 30)).any()
    assert (drawn > 30).any()


def test_a_first_piece_at_zero_delays_everything() -> None:
    assert times("piecewise:0=0,10=5", None, 5)[0] > 10


def test_onoff_keeps_the_mean_rate_in_bursts() -> None:
    drawn = times("onoff:2:6", 10.0, 400_000, seed=1)
    assert len(drawn) / drawn[-1] == pytest.approx(10, rel=0.05)
    per_second = np.bincount(drawn.astype(int))
    assert np.median(per_second) == 0
    assert np.percentile(per_second, 90) == pytest.approx(40, rel=0.15)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "posson",
        "poisson:2",
        "gamma",
        "gamma:0",
        "gamma:x",
        "piecewise:5=1",
        "piecewise:0=1,5=0",
        "onoff:3",
        "piecewise:0=-1,2=1",
        "piecewise:0=1,0=2",
        "piecewise:nowhere.csv",
        "onoff:0:3",
        "onoff:1:2:1.5",
        "onoff:1:2:3:4",
    ],
)
def test_a_bad_process_is_refused_by_name(text: str) -> None:
    with pytest.raises(SpecError, match=r"^arrivals: "):
        Arrivals.parse(text)


def test_a_process_without_a_rate_of_its_own_needs_one() -> None:
    with pytest.raises(SpecError, match="rate: missing"):
        times("poisson", None, 3)
    with pytest.raises(SpecError, match="rate: 0"):
        times("poisson", 0, 3)


def test_a_profile_file(tmp_path: Path) -> None:
    path = tmp_path / "rate.csv"
    path.write_text("t_s,total_req_s,other\n0,2,1\n100,4,1\n")
    process = Arrivals.parse(f"piecewise:{path}")
    assert (process.times, process.rates) == ((0, 100), (2, 4))
    assert process.mean_rate == 3
    path.write_text("t_s,total_req_s\n0,2\n100,many\n")
    with pytest.raises(SpecError, match=r"rate\.csv, line 3"):
        Arrivals.parse(f"piecewise:{path}")


@pytest.mark.skipif(not TRACES.is_dir(), reason="the shared traces are not here")
def test_a_production_rate_profile() -> None:
    drawn = times(f"piecewise:{TRACES}/deepseek-r1_rate_10min.csv", None, 30_000)
    assert (drawn < 600).sum() == pytest.approx(14.8633 * 600, rel=0.05)
