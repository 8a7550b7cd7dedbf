"""A profile of an engine whose times are known: the file says them."""

import json

import numpy as np
import pytest
from fakes import MODEL, device, group
from timed import Timed, expected, loaded, waking

from twofold.engine.profile import Effort, Profile, document, profile
from twofold.engine.profile_points import Bounds, Point
from twofold.errors import SpecError

EFFORT = Effort(60.0, (1, 1), 1.0, True, 5, 2, Bounds(2048, 16, 1024, 9000))
MEMORY = 64 << 20


def found(told: list[tuple[str, float]], effort: Effort = EFFORT) -> Profile:
    timed = Timed()
    return profile(
        loaded(timed),
        group("1B,mixed,batch=12"),
        device(1),
        memory_bytes=MEMORY,
        effort=effort,
        tell=lambda text, share: told.append((text, share)),
        clock=timed.clock,
        sleep=timed.sleep,
    )


@pytest.fixture(scope="module")
def measured() -> Profile:
    return found([])


def test_it_predicts_steps_that_it_was_not_fitted_to(measured: Profile) -> None:
    assert set(measured.residuals) == {"prompt", "decode", "mixed"}
    assert max(measured.residuals.values()) < 0.04
    assert not measured.fitted.keys() & measured.held_out.keys()
    for point in (Point(7, 200), Point(4, 100, ((333, 0),)), Point(chunks=((200, 400),), ends=False)):
        assert measured.fit.seconds(point) == pytest.approx(expected(point), rel=0.05)


def test_it_keeps_to_the_limits(measured: Profile) -> None:
    """No chunk that takes more than a second, no batch above that of the deployment, no context above the bound."""
    points = [*measured.fitted, *measured.held_out]
    assert max(point.prompt_tokens for point in points) == 768
    assert max(point.decodes for point in points) <= 12
    assert max(start + tokens for point in points for tokens, start in point.chunks) <= 1024


def test_it_finds_what_a_step_takes_more_after_a_pause() -> None:
    timed = Timed()
    made = profile(
        loaded(timed),
        group("1B,mixed,batch=12"),
        device(1),
        memory_bytes=MEMORY,
        effort=EFFORT,
        clock=timed.clock,
        sleep=timed.sleep,
    )
    assert [seconds for _, seconds in made.wake] == pytest.approx([0.0, waking(0.25), waking(1.0)])
    assert document(made, loaded(timed), device(1), ())["entries"][0]["wake"][1] == [0.25, pytest.approx(waking(0.25))]


def test_steps_that_take_too_long_are_run_in_the_first_round_only() -> None:
    told: list[tuple[str, float]] = []
    again = found(told, EFFORT._replace(rounds=(2, 2), longest_s=0.3))
    assert again.rounds == 2
    assert ("timing steps", 1.0) in told
    assert all(0.0 <= share <= 1.0 for _, share in told)


def test_it_tells_before_each_step_that_may_take_long() -> None:
    """What is told can end it: also while the longest chunk is found, and before the host is timed."""
    for ends in ("finding the longest chunk", "timing the host", "timing steps"):

        def tell(text: str, share: float, ends: str = ends) -> None:
            if text == ends:
                raise KeyboardInterrupt

        timed = Timed()
        with pytest.raises(KeyboardInterrupt):
            profile(
                loaded(timed),
                group("1B,mixed"),
                device(1),
                memory_bytes=MEMORY,
                effort=EFFORT,
                tell=tell,
                clock=timed.clock,
                sleep=timed.sleep,
            )


def test_the_document_is_a_cost_file(measured: Profile) -> None:
    content = json.loads(json.dumps(document(measured, loaded(Timed()), device(1), ["bf16", "1 threads"])))
    assert content["twofold_cost"] == 1
    assert "\n" not in content["source"]
    assert "timed, bf16, 1 threads" in content["source"]
    assert content["model"]["layers"] == MODEL.layers
    assert content["device"]["units"] == 1
    (entry,) = content["entries"]
    assert (entry["tp"], entry["dtype"], entry["splits"]) == (1, "bf16", [])
    for name in ("dense", "rows"):
        places = [place for place, _ in entry[name]]
        assert places == sorted(set(places))
        assert places[0] > 0
    prompts = {(tokens, start): seconds for tokens, start, seconds in entry["prompt_attention"]}
    assert prompts[512, 0] == pytest.approx(0.0006 + 2e-7 * 512**2 / 2, rel=0.25)
    contexts: dict[int, int] = {}
    for decodes, _, _ in entry["decode_attention"]:
        contexts[decodes] = contexts.get(decodes, 0) + 1
    assert min(contexts.values()) >= 2
    assert entry["residuals"] == measured.residuals


def test_too_little_to_tell_anything_is_refused() -> None:
    timed = Timed()
    with pytest.raises(SpecError, match="memory"):
        profile(loaded(timed), group("1B,mixed"), device(1), memory_bytes=1000, clock=timed.clock)
    with pytest.raises(SpecError, match="context"):
        profile(loaded(timed), group("1B,mixed"), device(1), memory_bytes=MEMORY, context=100, clock=timed.clock)


def test_rounds_that_fit() -> None:
    assert [EFFORT._replace(rounds=(2, 9)).fitting(each) for each in (100.0, 20.0, 10.0, 1.0, 0.0)] == [2, 3, 6, 9, 9]


def test_the_spread_is_that_of_the_steps() -> None:
    from twofold.engine.profile import _spread

    assert _spread({Point(1, 1): [1.0, 1.0, 1.0], Point(2, 1): [5.0]}) == 0.0
    assert _spread({Point(1, 1): np.linspace(0.9, 1.1, 5).tolist()}) == pytest.approx(0.05)
