"""The parts of a step, from times of whole requests."""

import numpy as np
import pytest

from twofold.clients.fit_parts import Parts, Steps, parts_of
from twofold.engine.profile_points import Point

COUNTS, CONTEXTS = (1, 2, 4, 8, 16, 32), (80, 1040)
CHUNKS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


def step_s(point: Point) -> float:
    """A device that reads its weights in 8 ms and multiplies for longer from 200 tokens on; 2 ms of HTTP a request."""
    layers = max(0.008, 40e-6 * point.tokens)
    prompts = sum(0.002 + 2e-9 * tokens * (start + tokens / 2) for tokens, start in point.chunks)
    return layers + 20e-6 * point.rows + prompts + 1e-7 * point.decodes * point.context


def timed(noise: float = 0.0) -> dict[Steps, float]:
    rng = np.random.default_rng(4)
    points = [Point(count, context) for count in COUNTS for context in CONTEXTS]
    points += [Point(chunks=((tokens, 0),)) for tokens in CHUNKS]
    return {(point,): step_s(point) * float(rng.lognormal(0, noise)) for point in points}


@pytest.fixture(scope="module")
def exact() -> Parts:
    return parts_of(timed())


@pytest.mark.parametrize(
    "point", [Point(6, 500), Point(24, 900), Point(chunks=((384, 0),)), Point(chunks=((3000, 0),))]
)
def test_it_predicts_what_it_was_not_fitted_to(exact: Parts, point: Point) -> None:
    assert exact.seconds((point,)) == pytest.approx(step_s(point), rel=0.03)
    assert parts_of(timed(0.02)).seconds((point,)) == pytest.approx(step_s(point), rel=0.06)


def test_steps_of_prompts_and_decodes_follow_from_both(exact: Parts) -> None:
    point = Point(16, 500, ((512, 0),))
    assert exact.seconds((point,)) == pytest.approx(step_s(point), rel=0.06)


def test_the_parts_are_what_they_were_made_of(exact: Parts) -> None:
    assert exact.pair_s == pytest.approx(2e-9, rel=0.1)
    assert exact.chunk_s == pytest.approx(0.002, rel=0.2)
    decodes = {(count, context): seconds for count, context, seconds in exact.decode_attention(CONTEXTS)}
    assert decodes[32, 1040] == pytest.approx(32 * 1040e-7, rel=0.02)
    assert decodes[1, 80] == pytest.approx(80e-7, rel=0.1)


def test_a_prompt_may_take_several_steps() -> None:
    """Then the attention of a later chunk is seen, and that each has a chunk's share."""
    cut: dict[Steps, float] = {}
    for (point,), seconds in timed().items():
        tokens = point.prompt_tokens
        starts = range(0, tokens, 512)
        steps = tuple(Point(chunks=((min(512, tokens - at), at),), ends=at == starts[-1]) for at in starts) or (point,)
        cut[steps] = sum(map(step_s, steps)) if tokens else seconds
    parts = parts_of(cut)
    assert all(parts.seconds(steps) == pytest.approx(seconds, rel=0.02) for steps, seconds in cut.items())
    assert parts.chunks[-1] == 512
    later = Point(chunks=((512, 2048),), ends=False)
    assert parts.seconds((later,)) == pytest.approx(step_s(later), rel=0.03)
