import pytest
from planted import GRID, NAMES, TIMES, Planted, Truth, planted, random_scenario, steady

import twofold
from twofold.plan.examine import STEADY, Another, Longer, Question, Search, another, examine, lasting
from twofold.plan.goodput import Goodput, goodput
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload

TARGET = NAMES[0]


def question(*truth: Truth) -> Planted:
    return planted(truth)[0]


def measured(k: int) -> Goodput:
    return Goodput(GRID.rate(k), 0.9, "ttft", 1)


@pytest.mark.parametrize("start", [-300, 17, 400])
def test_the_goodput_is_the_last_step_that_is_sustained(start: int) -> None:
    found = examine(question(Truth(17, 17, 500)), Search(TARGET, start, GRID.lowest, GRID.highest))
    assert (found.rate, found.limit) == (GRID.rate(17), "ttft")


def test_a_deployment_that_fails_the_lowest_step_asked_costs_one_probe() -> None:
    asked = question(Truth(17, 17, 500))
    found = examine(asked, Search(TARGET, 18, 18, 500))
    assert (found.rate, found.probes, asked.asked) == (0.0, 1, [(str(TARGET), 18)])


def test_a_goodput_that_a_longer_replay_sustains_but_for_a_little_is_kept() -> None:
    found, trap = lasting(question(Truth(100, 97, 500)), Longer(TARGET, measured(100), TIMES))
    assert (found, trap) == (measured(100), None)


def test_a_goodput_that_a_longer_replay_does_not_sustain_is_the_one_there() -> None:
    found, trap = lasting(question(Truth(100, 40, 500)), Longer(TARGET, measured(100), TIMES))
    assert (found.rate, found.limit, trap) == (GRID.rate(40), "ttft", GRID.rate(100))


def test_what_no_longer_replay_sustains_at_any_rate_has_no_goodput() -> None:
    found, trap = lasting(question(Truth(100, GRID.lowest - 1, 500)), Longer(TARGET, measured(100), TIMES))
    assert (found.rate, trap) == (0.0, GRID.rate(100))


@pytest.mark.parametrize("island", [{102}, {105, 106}, {102, 104, 108, 109}])
def test_an_island_of_passes_is_not_a_goodput(island: set[int]) -> None:
    known = question(Truth(100, 100, 500, frozenset(island)))
    found, trap = lasting(known, Longer(TARGET, measured(max(island)), TIMES))
    assert (found.rate, found.limit, trap) == (GRID.rate(100), "ttft", None)
    assert all(k >= 100 - STEADY - 1 for _, k in known.asked)


def test_the_longest_replay_of_a_steady_queue_is_as_the_short_one() -> None:
    slo = Slo.parse("ttft<=60ms @99%")
    prompts = Workload(
        "steady", steady(300).arrival_s, steady(300).prompt_tokens * 20, steady(300).output_tokens * 0 + 1
    )
    deployment = twofold.deployment("1B,prefill-first", model="llama-3-8b", device="H100")
    found = goodput(prompts, deployment, slo, precision=GRID.precision)
    kept, trap = lasting(Question(prompts, slo, GRID), Longer(deployment, found, TIMES))
    assert (kept.rate, trap) == (found.rate, None)


def test_other_requests_like_these_have_another_goodput_near_it_the_same_for_the_same_seed() -> None:
    scenario = random_scenario(3)
    asked, deployment = scenario.question, next(iter(scenario.space))
    rate = examine(asked, Search(deployment, 0, GRID.lowest, GRID.highest)).rate
    rates = [another(asked, Another(deployment, rate, 1, seed)) for seed in (0, 1, 0)]
    assert rates[0] == rates[2] != rates[1]
    assert all(0.3 * rate < each < 3 * rate for each in rates)
