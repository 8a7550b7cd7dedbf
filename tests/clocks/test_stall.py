"""The stall on a tiny random model: every policy gives all tokens, and what is told is what was measured."""

import itertools
import os
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))
from tiny import reference, saved

from twofold.clocks.stall import FIGURES, POLICIES, Compared, expected_s, predicted, replica_of, stalls
from twofold.cost.roofline import Roofline
from twofold.engine.load import load
from twofold.engine.stall import Scene, Stage, Stalled
from twofold.errors import SpecError
from twofold.spec import catalog

ENOUGH = hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) >= 2
EVERY = [text for text in POLICIES if ENOUGH or "multiplexed" not in text]
SCENE = Scene(streams=3, stream_prompt=6, output=14, before=4, prompt=90)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return saved(reference("llama"), tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def loaded(folder):
    return load(folder)


@pytest.mark.parametrize("policy", EVERY)
def test_every_token_of_every_stream_has_its_time(loaded, policy):
    ticks = itertools.count()
    stage = Stage(loaded, SCENE)
    run = stage.play(replica_of(policy), catalog.device("this-cpu"), 1, clock=lambda: float(next(ticks)))
    assert run.tokens_s.shape == (3, 14)
    assert (np.diff(run.tokens_s, axis=1) > 0).all()
    assert (run.tokens_s[:, 3] < 0).all()
    assert run.ttft_s > 0


def test_prefill_first_makes_all_streams_wait_for_the_whole_prompt(loaded):
    """On a clock of steps: none has a token in the step of the prompt."""
    ticks = itertools.count()
    run = Stage(loaded, SCENE).play(
        replica_of("1B,prefill-first"), catalog.device("this-cpu"), 1, clock=lambda: float(next(ticks))
    )
    after = run.tokens_s[run.tokens_s > 0]
    assert run.ttft_s == 1.0
    assert after.min() == 2.0


def test_chunks_let_the_streams_go_on(loaded):
    ticks = itertools.count()
    run = Stage(loaded, SCENE).play(
        replica_of("1B,chunked=33"), catalog.device("this-cpu"), 1, clock=lambda: float(next(ticks))
    )
    assert run.ttft_s == 3.0
    assert {1.0, 2.0, 3.0} <= set(run.tokens_s[0].tolist())


def test_figures_are_medians_over_the_runs(loaded):
    tokens = np.array([[0.0, 1.0, 2.0, 5.0]])
    runs = tuple(Stalled(tokens * factor, factor) for factor in (3.0, 1.0, 2.0))
    found = Compared("1B,mixed", runs)
    assert found.figures["tbt_max_s"] == 6.0
    assert found.figures["ttft_s"] == 2.0
    assert found.figures["tbt_p50_s"] == 2.0
    assert found.typical is runs[2]
    assert found.to_dict()["predicted"] is None


@pytest.mark.parametrize("policy", POLICIES)
def test_the_simulator_predicts_the_same_figures(loaded, policy):
    device = catalog.device("this-cpu").replaced(units=2)
    foreseen = predicted(SCENE, loaded.model, replica_of(policy), device, Roofline())
    assert list(foreseen) == list(FIGURES)
    assert 0 < foreseen["tbt_p50_s"] <= foreseen["tbt_p99_s"] <= foreseen["tbt_max_s"]
    assert foreseen["ttft_s"] > 0


def test_prediction_and_measurement_stand_side_by_side(loaded):
    seen = []
    found = stalls(
        loaded, SCENE, EVERY[:2], repeat=2, cost=Roofline(), progress=lambda done, total, text: seen.append(done)
    )
    assert [each.deployment for each in found] == EVERY[:2]
    assert [len(each.runs) for each in found] == [2, 2]
    assert all(each.predicted for each in found)
    assert seen == [0, 0, 1, 2, 3]


def test_how_long_it_takes_grows_with_the_runs_and_the_scene(loaded):
    def expected(scene, deployments=POLICIES, repeat=3):
        return expected_s(scene, loaded.model, deployments, repeat, Roofline())

    one = expected(SCENE, POLICIES[:1], 1)
    assert one > 0
    assert expected(SCENE) == pytest.approx(3 * len(POLICIES) * one)
    assert expected(Scene(streams=3, stream_prompt=6, output=28, before=4, prompt=90)) > 1.5 * expected(SCENE)


@pytest.mark.parametrize(
    ("deployments", "told"),
    [(["3P2D"], "one replica"), (["1B,mixed,blocks=8", "1B,mixed"], "one size"), (["1B,tp2"], "serves only")],
)
def test_what_cannot_be_measured_is_refused(loaded, deployments, told):
    with pytest.raises(SpecError, match=told):
        stalls(loaded, SCENE, deployments, repeat=1)


@pytest.mark.parametrize("fields", [{"streams": 0}, {"output": 8}, {"prompt": 0}])
def test_a_scene_that_shows_nothing_is_refused(fields):
    with pytest.raises(SpecError):
        Scene(**fields)


def test_a_prompt_beyond_the_context_is_refused(loaded):
    with pytest.raises(SpecError, match="255"):
        Stage(loaded, Scene(prompt=256))
