"""A fit of a server whose step times are known: the cost file says them."""

import json
from pathlib import Path
from typing import Any

import pytest
from known import Known

from twofold.clients.fit import Found, document, fit
from twofold.clients.fit_rounds import APART, LATE, MOST_ROUNDS
from twofold.cost.profile_file import read_profile
from twofold.cost.roofline import Roofline, step_seconds
from twofold.engine.profile_points import Point
from twofold.errors import SpecError
from twofold.spec import catalog
from twofold.spec.workload import Workload

MODEL, DEVICE = catalog.model("llama-3-8b"), catalog.device("H100")


def step_s(point: Point) -> float:
    """Weights are read in 8 ms, tokens multiplied in 40 µs each, and 3 ms go to HTTP with every prompt."""
    prompts = sum(0.003 + 2e-9 * tokens * (start + tokens / 2) for tokens, start in point.chunks)
    return max(0.008, 40e-6 * point.tokens) + prompts + 1e-7 * point.decodes * point.context


def found_on(server: Known, **options: Any) -> Found:
    return fit(server, clock=server.clock, **{"streams": 16, "seconds": 3600.0, **options})


@pytest.fixture(scope="module")
def found() -> Found:
    return found_on(Known(step_s))


def test_it_finds_the_times_and_says_how_well(found: Found) -> None:
    assert set(found.residuals) == {"prompt", "decode"}
    assert max(found.residuals.values()) < 0.03
    assert found.readings.rounds == MOST_ROUNDS
    assert found.readings.left_out == {}
    for point in (Point(7, 300), Point(chunks=((700, 0),)), Point(12, 400, ((256, 0),))):
        assert found.parts.seconds((point,)) == pytest.approx(step_s(point), rel=0.05)


def test_simulated_steps_take_what_the_server_took(found: Found, tmp_path: Path) -> None:
    path = tmp_path / "fit.json"
    path.write_text(json.dumps(document(found, MODEL, DEVICE, 1, "known")))
    costs = read_profile(path, Roofline())
    prompt = step_seconds(MODEL, DEVICE, prompts=[(0, 1500)], roofline=costs)
    decodes = step_seconds(MODEL, DEVICE, decode_contexts=[600] * 11, roofline=costs)
    assert prompt == pytest.approx(step_s(Point(chunks=((1500, 0),))), rel=0.04)
    assert decodes == pytest.approx(step_s(Point(11, 600)), rel=0.04)
    assert costs.error("decode", MODEL, DEVICE) == found.residuals["decode"]
    assert costs.error("mixed", MODEL, DEVICE) is None
    reach = costs.reach(MODEL, DEVICE)
    assert reach is not None
    assert (reach.tokens, reach.decodes) == (4096, 16)


def test_prompts_that_take_several_steps(tmp_path: Path) -> None:
    found = found_on(Known(step_s, chunk=512), chunk=512)
    assert max(found.residuals.values()) < 0.03
    path = tmp_path / "fit.json"
    path.write_text(json.dumps(document(found, MODEL, DEVICE, 1, "known")))
    later = step_seconds(MODEL, DEVICE, prompts=[(1024, 512)], roofline=read_profile(path, Roofline()))
    assert later == pytest.approx(step_s(Point(chunks=((512, 1024),))), rel=0.05)


def test_it_ends_when_the_time_is_up() -> None:
    whole, server = Known(step_s), Known(step_s)
    found_on(whole)
    found = found_on(server, seconds=whole.now / 2)
    assert found.readings.rounds in range(3, 6)
    assert server.now == pytest.approx(whole.now / 2, rel=0.05)


def test_what_there_was_no_time_for_is_said() -> None:
    """The heaviest probes are left out, and the fit is made of the others."""
    whole = Known(step_s)
    found_on(whole)
    found = found_on(Known(step_s), seconds=whole.now / MOST_ROUNDS / 2)
    assert set(found.readings.left_out.values()) == {LATE}
    assert max(probe.work for probe in found.readings.seen) < min(probe.work for probe in found.readings.left_out)
    with pytest.raises(SpecError, match=LATE):
        found_on(Known(step_s), seconds=0.2)


def test_what_the_server_refuses_is_left_out() -> None:
    server = Known(step_s, fails=lambda load: "http 400" if load.prompt_tokens[0] > 2000 else None)
    found = found_on(server)
    assert {probe.prompt for probe in found.readings.left_out} == {2048, 2560, 3072, 3584, 4096}
    assert sum(int(load.prompt_tokens[0]) == 4096 for load in server.loads) == 1
    assert max(each.probe.prompt for each in found.fitted) == 1536


def test_streams_above_the_batch_of_the_server_are_left_out() -> None:
    found = found_on(Known(step_s, batch=4))
    assert {(probe.streams > 4, why) for probe, why in found.readings.left_out.items()} == {(True, APART)}
    assert max(each.probe.streams for each in found.fitted) == 4


@pytest.mark.parametrize("kind", ["disconnect", "http 500"])
def test_a_server_that_fails_is_one_line(kind: str) -> None:
    def fails(load: Workload) -> str | None:
        return kind if load.prompt_tokens[0] > 100 else None

    with pytest.raises(SpecError, match=kind) as error:
        found_on(Known(step_s, fails=fails))
    assert error.value.field == "URL"


def test_it_tells_how_far_it_is() -> None:
    told: list[tuple[str, float]] = []
    found_on(Known(step_s), tell=lambda text, share: told.append((text, share)))
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert 0.0 <= shares[0] < shares[-1] <= 1.0
    assert "prompt of 4,096 tokens" in {text for text, _ in told}
