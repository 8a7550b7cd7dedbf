import itertools
import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.errors import SpecError
from twofold.spec.synthetic import Synthetic
from twofold.spec.traces import SAMPLE
from twofold.spec.workload import Workload

EXAMPLES = Path(__file__).parents[2] / "examples"
CHAT = {"turns": "geometric:3", "think_s": "20s"}


def draw(**fields: object) -> Workload:
    return Synthetic(
        **({"rate": 5, "requests": 400, "prompt": "lognormal:200:0.6", "output": "50"} | fields)
    ).workload()


def pieces(w: Workload, row: int) -> list[int]:
    return w.hash_ids[w.hash_start[row] : w.hash_start[row + 1]].tolist()


@given(st.integers(0, 2**32))
@settings(max_examples=20)
def test_the_same_seed_makes_the_same_workload(seed: int) -> None:
    assert draw(seed=seed).content_key() == draw(seed=seed).content_key()
    assert draw(seed=seed).content_key() != draw(seed=seed + 1).content_key()


def test_another_rate_keeps_the_lengths() -> None:
    slow, fast = draw(rate=1), draw(rate=4)
    assert (slow.prompt_tokens == fast.prompt_tokens).all()
    assert slow.arrival_s == pytest.approx(fast.arrival_s * 4)


def test_other_outputs_keep_prompts_and_arrivals() -> None:
    one, other = draw(output="gamma:50:2"), draw(output="90")
    assert (one.prompt_tokens == other.prompt_tokens).all()
    assert (one.arrival_s == other.arrival_s).all()


def test_more_requests_begin_with_the_same_ones() -> None:
    assert draw(requests=500).head(400).content_key() == draw().content_key()


@pytest.mark.parametrize("arrivals", ["poisson", "constant", "onoff:5:5", "piecewise:0=2,50=9"])
def test_a_duration_is_filled_and_kept(arrivals: str) -> None:
    w = draw(requests=None, duration_s="10min", arrivals=arrivals)
    longer = draw(requests=None, duration_s="20min", arrivals=arrivals)
    assert w.arrival_s[-1] < 600
    assert longer.arrival_s[len(w)] >= 600
    assert (longer.arrival_s[: len(w)] == w.arrival_s).all()


def test_shared_prefixes_share_their_full_pieces_only() -> None:
    w = draw(shared_prefix={"pool": 2, "tokens": "100", "popularity": 0}, hash_tokens=16)
    assert w.prompt_tokens.min() > 100
    begins = {tuple(pieces(w, row)[:6]) for row in range(len(w))}
    assert len(begins) == 2
    rest = [h for row in range(len(w)) for h in pieces(w, row)[6:]]
    assert len(rest) == len(set(rest))


def test_popular_prefixes_are_chosen_more_often() -> None:
    w = draw(requests=4000, shared_prefix={"pool": 2, "tokens": "64", "popularity": 1})
    first = np.array([pieces(w, row)[0] for row in range(len(w))])
    assert (first == 1).mean() == pytest.approx(2 / 3, abs=0.03)


def test_a_turn_carries_all_that_was_said_before() -> None:
    w = draw(sessions={"turns": "3", "think_s": 20}, requests=None, duration_s=3000, prompt="100", output="50")
    assert sorted(set(w.prompt_tokens.tolist())) == [100, 250, 400]
    by_begin: dict[int, list[int]] = {}
    for row in range(len(w)):
        by_begin.setdefault(pieces(w, row)[0], []).append(row)
    for rows in by_begin.values():
        for earlier, later in itertools.pairwise(rows):
            known = pieces(w, earlier)
            assert len(known) == (w.prompt_tokens[earlier] + w.output_tokens[earlier]) // 16
            assert pieces(w, later)[: len(known)] == known
            assert w.arrival_s[later] > w.arrival_s[earlier]


def test_sessions_keep_the_rate_of_requests() -> None:
    w = draw(sessions=CHAT, requests=None, duration_s="4h")
    assert len(w) / 14400 == pytest.approx(5, rel=0.05)


@given(st.integers(1, 300), st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_the_first_requests_of_sessions_do_not_depend_on_how_many_are_asked_for(n: int, seed: int) -> None:
    w = draw(sessions=CHAT, requests=n, seed=seed)
    assert len(w) == n
    more = draw(sessions=CHAT, requests=n + 100, seed=seed).head(n)
    assert (w.arrival_s == more.arrival_s).all()
    assert (w.prompt_tokens == more.prompt_tokens).all()


def test_a_session_beyond_all_bounds_is_refused() -> None:
    with pytest.raises(SpecError, match=r"sessions\.turns"):
        draw(requests=3, prompt="fixed:900000000", sessions={"turns": "9", "think_s": 1e-6}, hash_tokens=10**8)


def test_sessions_end_before_they_outgrow_the_context() -> None:
    w = draw(sessions={**CHAT, "turns": "geometric:8", "max_tokens": 1000})
    assert int((w.prompt_tokens + w.output_tokens).max()) <= 1000
    with pytest.raises(SpecError, match=r"sessions\.max_tokens: 5"):
        draw(sessions={**CHAT, "max_tokens": 5})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"requests": None}, "requests: missing; give either requests or duration_s"),
        ({"duration_s": 5}, "give either requests or duration_s"),
        ({"rate": None}, "rate: missing; poisson arrivals need a rate"),
        ({"rate": 0}, "rate: 0"),
        ({"prompt": "lognormal:5"}, "prompt: 'lognormal:5'"),
        ({"arrivals": "sometimes"}, "arrivals: 'sometimes'"),
        ({"requests": 0}, "requests: 0"),
        ({"promt": "5"}, "promt: '5' is not accepted; no such field; did you mean prompt"),
        ({"sessions": {"think_s": "soon"}}, "sessions.think_s: 'soon'"),
        ({"shared_prefix": {"pool": 0}}, "shared_prefix.pool: 0"),
        ({"seed": -1}, "seed: -1"),
    ],
)
def test_a_bad_field_is_named(fields: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        draw(**fields)


def test_the_shipped_sample_is_what_its_script_makes() -> None:
    made = runpy.run_path(str(EXAMPLES / "make_sample.py"))["sample_text"]()
    assert made == SAMPLE.read_text(encoding="utf-8")
