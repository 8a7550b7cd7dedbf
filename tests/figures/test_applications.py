"""The applications of section 5: what is drawn, what is asked, how draws are compared."""

import numpy as np
import pytest

from twofold.figures.applications import (
    CHAT,
    CODE,
    REQUESTS,
    SEEDS,
    SUMMARIES,
    Application,
    advantages,
    best_of,
    by_draw,
    colocated,
    disaggregated,
    means,
)
from twofold.plan.goodput import goodput
from twofold.spec.slo import Slo

MEANS = [(CHAT, 755, 200, 0.06), (CODE, 171, 98, 0.06)]


@pytest.mark.parametrize("application", [CHAT, CODE, SUMMARIES])
def test_requests_fit_the_context_and_keep_their_outputs(application: Application) -> None:
    for seed in (0, 3):
        drawn = application.workload(seed, "opt-13b")
        assert len(drawn) == REQUESTS
        assert (drawn.prompt_tokens + drawn.output_tokens).max() <= 2048
        assert np.array_equal(application.workload(seed, "llama-3-8b").arrival_s, drawn.arrival_s)


@pytest.mark.parametrize(("application", "prompt", "output", "off"), MEANS)
def test_means_are_those_that_were_chosen(application: Application, prompt: int, output: int, off: float) -> None:
    drawn = [application.workload(seed, "opt-13b") for seed in SEEDS]
    assert np.mean([w.prompt_tokens.mean() for w in drawn]) == pytest.approx(prompt, rel=off)
    assert np.mean([w.output_tokens.mean() for w in drawn]) == pytest.approx(output, rel=off)


def test_a_summary_is_about_1600_tokens_in_all() -> None:
    drawn = [SUMMARIES.workload(seed, "opt-13b") for seed in SEEDS]
    assert np.mean([(w.prompt_tokens + w.output_tokens).mean() for w in drawn]) == pytest.approx(1600, rel=0.02)


def test_deployments_are_those_that_are_named() -> None:
    split = disaggregated("3P2D", "opt-13b", "A100")
    assert [(group.role, group.count) for group in split.groups] == [("prefill", 3), ("decode", 2)]
    assert split.groups[1].admission == "reserve"
    assert split.link == "NVLink3"
    shared = colocated("chunked=256", "opt-66b", "A100", count=2, tp=8)
    assert (shared.devices_total, shared.groups[0].budget_tokens) == (16, 256)


def test_a_draw_is_measured_as_if_it_were_the_only_one() -> None:
    deployments = {"mixed": colocated("mixed", "opt-13b", "A100"), "3P1D": disaggregated("3P1D", "opt-13b", "A100")}
    slo = Slo.parse(CODE.slo)
    drawn = by_draw(CODE, "opt-13b", deployments, slo)
    assert len(drawn) == len(SEEDS)
    assert means(drawn)["mixed"] == pytest.approx(sum(found["mixed"] for found in drawn) / len(SEEDS))
    last = CODE.workload(SEEDS[-1], "opt-13b")
    for name, deployment in deployments.items():
        assert goodput(last, deployment, slo, guess=900.0).rate == pytest.approx(drawn[-1][name], rel=0.021)


def test_an_advantage_is_of_the_best_over_the_best_of_each_draw() -> None:
    one = {"prefill-first": 2.0, "mixed": 4.0, "chunked=512": 3.0} | dict.fromkeys(
        ("1P1D", "1P2D", "2P1D", "2P2D", "3P1D"), 1.0
    )
    found = [one | {"3P2D": 6.0}, one | {"3P2D": 2.0}]
    assert advantages(found) == [1.5, 0.5]
    assert advantages(found, ["prefill-first"]) == [3.0, 1.0]
    assert best_of(found, one) == "mixed"
