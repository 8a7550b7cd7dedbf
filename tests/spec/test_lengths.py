from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.errors import SpecError
from twofold.spec.lengths import Lengths

TRACES = Path(__file__).parents[2] / ".." / "shared" / "data" / "traces"


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


@pytest.mark.parametrize(
    ("text", "mean"),
    [
        ("fixed:512", 512),
        ("512", 512),
        ("lognormal:755:0.6", 755),
        ("gamma:300:1.5", 300),
        ("geometric:3", 3),
        ("uniform:100:200", 150),
        ("zipf:1:1:3", 3 / (1 + 1 / 2 + 1 / 3)),
    ],
)
def test_samples_have_the_stated_mean(text: str, mean: float) -> None:
    lengths = Lengths.parse(text)
    drawn = lengths.sample(rng(), 200_000)
    assert lengths.mean == pytest.approx(mean)
    assert drawn.mean() == pytest.approx(mean, rel=0.015)
    assert drawn.dtype == np.int32


def test_the_lognormal_has_the_stated_sigma() -> None:
    drawn = Lengths.parse("lognormal:5000:0.6").sample(rng(), 200_000)
    assert np.log(drawn).std() == pytest.approx(0.6, rel=0.01)
    assert np.median(drawn) == pytest.approx(5000 * np.exp(-0.18), rel=0.01)


def test_uniform_reaches_both_ends_and_zipf_its_shares() -> None:
    assert set(Lengths.parse("uniform:3:5").sample(rng(), 1000).tolist()) == {3, 4, 5}
    drawn = Lengths.parse("zipf:2:1:100").sample(rng(), 100_000)
    assert (drawn == 1).sum() / (drawn == 2).sum() == pytest.approx(4, rel=0.05)


@given(st.sampled_from(["lognormal:1.2:2", "gamma:1:5", "geometric:1", "zipf:0:1:9"]), st.integers(0, 2**32))
def test_every_length_is_at_least_one(text: str, seed: int) -> None:
    assert Lengths.parse(text).sample(rng(seed), 50).min() >= 1


@given(st.integers(0, 2**32))
def test_the_same_seed_draws_the_same_lengths(seed: int) -> None:
    lengths = Lengths.parse("lognormal:755:0.6")
    assert (lengths.sample(rng(seed), 20) == lengths.sample(rng(seed), 20)).all()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "norml:3",
        "fixed:0",
        "fixed:1.5",
        "lognormal:100",
        "lognormal:100:-1",
        "gamma:100:0",
        "uniform:9:3",
        "zipf:1:0:5",
        "geometric:0.5",
        "lognormal:nan:1",
        "cdf:nowhere.csv",
        "fixed:x",
    ],
)
def test_a_bad_distribution_is_refused_by_name(text: str) -> None:
    with pytest.raises(SpecError, match=r"^prompt: ") as caught:
        Lengths.parse(text, "prompt")
    assert "\n" not in str(caught.value)


def test_an_empirical_cdf(tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_text("tokens,pdf,cdf\n4,x,0.25\n10,x,1\n")
    lengths = Lengths.parse(f"cdf:{path}")
    drawn = lengths.sample(rng(), 100_000)
    assert lengths.mean == pytest.approx(8.5)
    assert set(drawn.tolist()) == {4, 10}
    assert (drawn == 4).mean() == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tokens,share\n4,1\n", "the columns tokens and cdf"),
        ("tokens,cdf\n4,0.5\n3,1\n", "line 3, tokens"),
        ("tokens,cdf\n4,0.5\n5,0.4\n", "line 3, cdf"),
        ("tokens,cdf\n4,0.5\n", "the last cdf is 1"),
        ("tokens,cdf\n4,half\n", "line 2: .* two numbers"),
        ("tokens,cdf\n0,1\n", "line 2"),
        ("tokens,cdf\n", "no rows"),
    ],
)
def test_a_bad_cdf_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "c.csv"
    path.write_text(text)
    with pytest.raises(SpecError, match=message):
        Lengths.parse(f"cdf:{path}")


@pytest.mark.skipif(not TRACES.is_dir(), reason="the shared traces are not here")
@pytest.mark.parametrize(("kind", "mean"), [("input", 1268), ("output", 1527)])
def test_production_cdfs(kind: str, mean: float) -> None:
    assert Lengths.parse(f"cdf:{TRACES}/deepseek-r1_{kind}_len_cdf.csv").mean == pytest.approx(mean, rel=0.01)
