"""Simulations under measured tables: running ahead, and lanes at the speeds that were measured."""

from dataclasses import replace

import numpy as np
import pytest

from twofold.cost.grids import Beside, Straight
from twofold.cost.measured import Key, Measured, Split, Tables
from twofold.cost.roofline import Roofline
from twofold.errors import SpecError
from twofold.simulate.run import simulate
from twofold.spec.notation import parse_deployment
from twofold.spec.synthetic import Synthetic
from twofold.spec.workload import Workload

TABLES = Tables(
    dense=((1.0, 10e-3), (64.0, 12e-3), (512.0, 40e-3)),
    prompts=(Straight(16.0, 1e-3, 1e-6), Straight(512.0, 2e-3, 8e-6)),
    decodes=(Straight(1.0, 1e-3, 1e-6), Straight(8.0, 2e-3, 5e-6)),
    rows=((1.0, 1e-3), (9.0, 2e-3)),
    beside=Beside(
        np.array([1.0, 8.0]), np.array([100.0, 900.0]), np.array([[2e-3, 4e-3], [3e-3, 9e-3]]), np.array([1e-6, 2e-6])
    ),
    longest_share=0.25,
    wake=((0.05, 5e-3), (1.0, 40e-3)),
    splits=(Split(80, 52, ((64.0, 0.8), (512.0, 0.6)), 0.9, 1.2, 1.5),),
)
ROWS = {Key("Llama-3-8B", "H100", tp, "bf16"): TABLES for tp in (1, 2)}
OWN = Measured("own.json", ROWS, Roofline(graph_tokens=64))
REQUESTS = Synthetic(rate=9.0, requests=30, prompt="lognormal:300:0.6", output="lognormal:20:0.8", seed=3).workload()


def deployed(text):
    return parse_deployment(text, model="llama-3-8b", device="H100")


@pytest.mark.parametrize(
    "text", ["1B,chunked=256", "1B,chunked=60ms", "1B,mixed", "1B,multiplexed=80:52", "1P,tp2 + 1D", "1B,pp2"]
)
def test_running_ahead_changes_nothing_under_measurements(text):
    ahead, slow = (simulate(REQUESTS, deployed(text), roofline=OWN, step_by_step=step) for step in (False, True))
    np.testing.assert_array_equal(ahead.e2e_s, slow.e2e_s)
    assert ahead.energy_j == pytest.approx(slow.energy_j, rel=1e-9)
    assert ahead.completed.all()


def test_a_batch_with_one_long_context_is_slower_than_an_even_one():
    even = Measured("even.json", {key: replace(row, longest_share=0.0) for key, row in ROWS.items()}, OWN.roofline)
    lengths = np.array([100, 100, 100, 1200], np.int32)
    workload = Workload("uneven", np.zeros(4), lengths, np.full(4, 20, np.int32))
    slow, fast = (simulate(workload, deployed("1B,mixed"), roofline=costs) for costs in (OWN, even))
    further = np.interp(4, [1, 8], [1e-6, 5e-6]) * 0.25 * (1200 - lengths.mean())
    np.testing.assert_allclose(slow.tpot_s - fast.tpot_s, further, rtol=1e-9)


@pytest.mark.parametrize("text", ["1B,mixed", "1B,chunked=256", "1B,multiplexed=80:52"])
def test_the_first_step_after_a_pause_takes_more(text):
    """Only that one: nothing of it is in the tokens that follow, nor in a prompt that finds the replica at work."""
    even = Measured("even.json", {key: replace(row, wake=()) for key, row in ROWS.items()}, OWN.roofline)
    arrivals = np.array([0.0, 0.5, 3.0, 3.0])
    workload = Workload("pauses", arrivals, np.full(4, 200, np.int32), np.full(4, 4, np.int32))
    slow, fast = (simulate(workload, deployed(text), roofline=costs) for costs in (OWN, even))
    idle = arrivals[1] - (arrivals[0] + slow.e2e_s[0])
    more = [0.0, np.interp(idle, [0.05, 1.0], [5e-3, 40e-3]), 40e-3, 40e-3]
    np.testing.assert_allclose(slow.ttft_s - fast.ttft_s, more, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(slow.tpot_s, fast.tpot_s, rtol=1e-9)


@pytest.mark.parametrize(("tokens", "speed"), [(40, 0.8), (64, 0.8), (288, 0.7), (512, 0.6), (900, 0.6)])
def test_prompts_beside_decodes_go_at_the_speed_of_their_size(tokens, speed):
    (split,) = TABLES.splits
    only = {key: replace(row, splits=(split._replace(prompt_speed=((1.0, speed),)),)) for key, row in ROWS.items()}
    prompts = np.array([100, tokens, tokens], np.int32)
    workload = Workload("beside", np.array([0.0, 0.5, 1.5]), prompts, np.array([200, 2, 2], np.int32))
    deployment = deployed("1B,multiplexed=80:52")
    by_size, by_number = (simulate(workload, deployment, roofline=costs) for costs in (OWN, Measured("one", only)))
    np.testing.assert_allclose(by_size.ttft_s[1:], by_number.ttft_s[1:], rtol=1e-9)
    assert by_size.e2e_s[0] > 1.5, "the stream has ended before the last prompt came"


def test_a_split_that_was_not_measured_is_refused():
    with pytest.raises(SpecError, match="80:52"):
        simulate(REQUESTS, deployed("1B,multiplexed=88:44"), roofline=OWN)
