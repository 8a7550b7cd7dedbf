"""Host seconds are found again from the times that they made, and what one run lacks is not spread over the others."""

from dataclasses import asdict

import numpy as np
import pytest

from twofold.cost.grids import Straight
from twofold.cost.measured import Key, Measured, Tables
from twofold.cost.roofline import step_seconds
from twofold.spec import catalog
from twofold.validate.host_fit import Host, fitted_host

MODEL, H100 = catalog.model("llama-3-8b"), catalog.device("H100")
TRUTH = Host(1e-3, 2e-5, 4e-3, 3e-6, 2e-2)
SHAPES = [(decodes, prompt) for prompt in (256, 1024, 4096, 2048) for decodes in (1, 16, 64, 8)]
BARE = Measured(
    "own.json",
    {
        Key(MODEL.name, H100.name, 1, "bf16"): Tables(
            dense=((1.0, 10e-3), (8192.0, 200e-3)),
            prompts=(Straight(16.0, 0.0, 1e-6), Straight(8192.0, 0.0, 8e-6)),
            decodes=(Straight(1.0, 0.0, 1e-6), Straight(64.0, 0.0, 5e-5)),
        )
    },
)


def seconds(cost, prompts, decodes):
    return step_seconds(MODEL, H100, prompts=prompts, decode_contexts=[500] * decodes, roofline=cost)


def times(host):
    """A TTFT of one to three steps with a prompt, and a TPOT of which some steps have one: straight in the host."""
    cost, rows = host.on(BARE), []
    for place, (decodes, prompt) in enumerate(SHAPES):
        beside, alone = seconds(cost, [(0, prompt)], decodes), seconds(cost, [], decodes)
        rows.append((host.first_s + (1 + place % 3) * beside, alone + 0.2 * beside))
    return np.array(rows)


def values(host):
    return np.array(list(asdict(host).values()))


def test_each_second_of_the_host_is_where_it_belongs():
    cost, bare = TRUTH.on(BARE), BARE
    alone = seconds(cost, [], 16) - seconds(bare, [], 16)
    assert alone == pytest.approx(1e-3 + 16 * 2e-5)
    beside = seconds(cost, [(0, 1024)], 16) - seconds(bare, [(0, 1024)], 16)
    assert beside == pytest.approx(1e-3 + 17 * 2e-5 + 4e-3 + 1024 * 3e-6)


@pytest.mark.parametrize("start", [Host(), Host(2e-3, 1e-5, 1e-3, 1e-6, 1e-3)])
def test_they_are_found_again(start):
    np.testing.assert_allclose(values(fitted_host(times, times(TRUTH), start)), values(TRUTH), rtol=1e-6)


def test_a_run_that_something_else_slows_down_hardly_counts():
    measured = times(TRUTH)
    measured[4] *= 8.0
    np.testing.assert_allclose(values(fitted_host(times, measured, Host())), values(TRUTH), rtol=0.25)


def test_none_is_negative():
    assert (values(fitted_host(times, 0.5 * times(Host()), Host())) == 0.0).all()
