import json
from dataclasses import replace

import numpy as np
import pytest

import twofold
from twofold.errors import SpecError
from twofold.plan.budget import GRID, TILE, BudgetStudy, budget_study, largest_budget
from twofold.spec.synthetic import Synthetic
from twofold.spec.workload import Workload

WORKLOAD = Synthetic(rate=30, requests=250, prompt="lognormal:755:0.6", output="lognormal:120:0.8", seed=2).workload()
LIMIT_S = 0.02


@pytest.fixture(scope="module")
def study() -> BudgetStudy:
    return budget_study(WORKLOAD, "llama-3-8b", "H100")


def p99(budget: int) -> float:
    deployment = twofold.deployment(f"1B,chunked={budget}", model="llama-3-8b", device="H100")
    return twofold.simulate(WORKLOAD, deployment).tbt_quantile(0.99)


def test_the_limits_that_the_paper_prints_for_mistral_on_a100() -> None:
    found = budget_study(WORKLOAD.head(20).at_rate(1.0), "mistral-7b", "A100-80GB")
    assert found.strict.tbt_limit_s == pytest.approx(0.1, rel=0.02)
    assert found.relaxed.tbt_limit_s == pytest.approx(0.5, rel=0.02)


def test_the_profile_is_largest_and_in_tiles() -> None:
    choice = largest_budget(WORKLOAD, "llama-3-8b", "H100", LIMIT_S)
    budget, step = choice.profiled.budget, choice.profiled.step_s
    assert budget % TILE == 0
    assert step <= LIMIT_S
    token = 2 * 32 * 0.218e9 / (989e12 * 0.7)
    assert step + TILE * token > LIMIT_S


def test_the_simulated_choice_keeps_the_limit_and_one_tile_more_does_not() -> None:
    choice = largest_budget(WORKLOAD, "llama-3-8b", "H100", LIMIT_S)
    assert choice.simulated.tbt_p99_s == p99(choice.simulated.budget) <= LIMIT_S
    assert p99(choice.simulated.budget + TILE) > LIMIT_S
    assert not choice.open_ended


def test_larger_budgets_take_longer_steps_and_cost_less_chunking(study: BudgetStudy) -> None:
    steps, overheads = [row.step_s for row in study.profile], [row.overhead for row in study.profile]
    assert steps == sorted(steps)
    assert overheads == sorted(overheads, reverse=True)
    assert overheads[-1] == 0.0
    assert [row.budget for row in study.runs] == list(GRID)


def test_the_overhead_of_the_lecture(study: BudgetStudy) -> None:
    by_budget = {row.budget: row.overhead for row in study.profile}
    assert 0.03 < by_budget[512] < 0.04
    assert 0.08 < by_budget[256] < 0.09


def test_the_runs_are_those_of_the_simulator(study: BudgetStudy) -> None:
    assert {row.budget: row.tbt_p99_s for row in study.runs}[1024] == p99(1024)


def test_strict_is_below_relaxed_and_no_budget_is_too_large_for_it(study: BudgetStudy) -> None:
    assert study.strict.tbt_limit_s == pytest.approx(5 * study.decode_step_s)
    assert study.strict.profiled.budget < study.relaxed.profiled.budget
    assert study.relaxed.open_ended
    assert json.loads(json.dumps(study.to_dict()))["relaxed"]["open_ended"] is True


def test_a_limit_below_a_decode_step_is_kept_by_no_budget() -> None:
    choice = largest_budget(WORKLOAD, "llama-3-8b", "H100", 1e-3)
    assert (choice.profiled, choice.simulated, choice.open_ended) == (None, None, False)


def test_an_overload_is_not_hidden() -> None:
    crowd = replace(WORKLOAD, output_tokens=np.full(len(WORKLOAD), 2)).at_rate(2000.0)
    long_prompts = replace(crowd, prompt_tokens=np.full(len(crowd), 8000))
    choice = largest_budget(long_prompts, "llama-3-8b", "H100", LIMIT_S)
    assert choice.simulated.sustained is False
    assert choice.simulated.ttft_p50_s > 2.0


def test_what_cannot_be_asked_is_refused() -> None:
    single = Workload("one token each", np.arange(3.0), np.full(3, 100), np.ones(3))
    with pytest.raises(SpecError, match="two output tokens"):
        largest_budget(single, "llama-3-8b", "H100", LIMIT_S)
    with pytest.raises(SpecError, match="tbt_limit_s"):
        largest_budget(WORKLOAD, "llama-3-8b", "H100", 0.0)
    with pytest.raises(SpecError, match="at least"):
        largest_budget(WORKLOAD, "llama-3-70b", "H100", LIMIT_S)
