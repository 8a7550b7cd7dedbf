import itertools
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from planted import GRID, PLACES, exhaustive, random_scenario, searched

import twofold
import twofold.plan.probe
from twofold.cost.roofline import Roofline
from twofold.errors import SpecError
from twofold.plan.probe import probe
from twofold.plan.ranking import Plan
from twofold.spec.slo import Slo
from twofold.spec.synthetic import Synthetic
from twofold.spec.workload import Workload

SLO = "ttft<=0.25s, tpot<=20ms @90%"
ASKED: dict[str, Any] = {"model": "llama-3-8b", "budget": "1xH100", "slo": SLO, "workers": 1}


def load(count: int = 150) -> Workload:
    return Synthetic(rate=10, requests=count, prompt="lognormal:755:0.6", output="lognormal:60:0.5", seed=3).workload()


@pytest.fixture(scope="module")
def found() -> Plan:
    return twofold.plan(load(), **ASKED, keep=3, samples=2)


@pytest.mark.parametrize("part", range(4))
def test_the_search_finds_what_exhaustive_evaluation_finds(part: int) -> None:
    for seed in range(part, 52, 4):
        scenario = random_scenario(seed)
        goodputs = exhaustive(scenario)
        search, ranked = searched(scenario)
        best = ranked[0].value if ranked else 0.0
        assert best == max(goodputs.values()), scenario
        assert search.gap() == 0.0


def test_the_random_scenarios_cover_all_places_and_verdicts() -> None:
    scenarios = [random_scenario(seed) for seed in range(52)]
    assert {(each.model, each.budget) for each in scenarios} == set(PLACES)


@pytest.mark.parametrize("seed", [3, 29])
def test_the_plan_is_that_of_exhaustive_evaluation_with_the_long_replay_too(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = random_scenario(seed)
    monkeypatch.setattr("twofold.plan.searches.LONG", 3 * len(scenario.workload))
    asked = {"model": scenario.model, "budget": scenario.budget, "slo": scenario.slo}
    best = twofold.plan(scenario.workload, **asked, keep=1, samples=0, workers=1).best
    assert best.found.rate == max(exhaustive(scenario).values())


def test_the_ranking_is_by_goodput_and_the_first_is_best(found: Plan) -> None:
    rates = [row["goodput_req_s"] for row in found.rows]
    assert rates == sorted(rates, reverse=True)
    assert found.best.found.rate == rates[0] > 0
    assert found.best.per_device == pytest.approx(rates[0] / found.best.deployment.devices_total)


def test_the_certificate_counts_every_candidate_once(found: Plan) -> None:
    sure = found.certificate
    assert sure.pruned_by_bound + sure.pruned_by_probe + sure.measured == sure.candidates == 12
    assert (sure.gap, sure.stopped, sure.measured) == (0.0, None, len(found.rows))


def test_the_kept_are_confirmed_and_no_bound_is_below_a_goodput(found: Plan) -> None:
    assert all(candidate.confirmed for candidate in found.candidates[:3])
    assert all(candidate.found.rate <= candidate.bound for candidate in found.candidates)
    assert all(candidate.low is not None for candidate in found.candidates[:3])


def test_the_best_deployment_really_sustains_its_goodput(found: Plan) -> None:
    result = twofold.simulate(load().at_rate(found.best.found.rate), found.best.deployment, SLO)
    assert result.summary()["attainment"] >= 0.9


def test_threads_do_not_change_the_plan(found: Plan) -> None:
    parallel = twofold.plan(load(), **(ASKED | {"workers": 2}), keep=3, samples=2)
    assert json.dumps(parallel.to_dict()) == json.dumps(found.to_dict())


@pytest.fixture
def simulations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all runs that were simulated, not recalled."""
    seen: list[int] = []
    simulate: Callable[..., Any] = twofold.plan.probe.simulate

    def counted(workload: Workload, *arguments: Any, **options: Any) -> Any:
        seen.append(len(workload))
        return simulate(workload, *arguments, **options)

    monkeypatch.setattr("twofold.plan.probe.simulate", counted)
    return seen


def test_a_second_search_recalls_what_the_first_has_simulated(
    found: Plan, simulations: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("TWOFOLD_CACHE_DIR", str(tmp_path))
    plans, counts = [], []
    for _ in range(2):
        plans.append(twofold.plan(load(), **ASKED, keep=3, samples=2, cached=True))
        counts.append(len(simulations))
    assert [json.dumps(each.to_dict()) for each in plans] == [json.dumps(found.to_dict())] * 2
    assert counts[0] > 50
    assert counts[1] == counts[0]


@pytest.mark.parametrize("seed", [3, 7, 11, 21])
def test_no_time_gives_a_plan_whose_gap_is_true(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = random_scenario(seed)
    monkeypatch.setattr("twofold.plan.searches.LONG", 3 * len(scenario.workload))
    asked = {"model": scenario.model, "budget": scenario.budget, "slo": scenario.slo, "workers": 1}
    hurried = twofold.plan(scenario.workload, **asked, time_limit_s=0.0)
    sure = hurried.certificate
    assert sure.stopped == "time"
    ruled_out = sure.pruned_by_bound + sure.pruned_by_probe
    assert ruled_out + sure.measured + sure.unexamined == sure.candidates
    assert max(exhaustive(scenario).values()) <= hurried.best.found.rate * (1 + sure.gap) * (1 + 1e-9)
    assert all(row["low_req_s"] is None and not row["confirmed"] for row in hurried.rows)


@pytest.mark.parametrize("objective", ["goodput", "goodput-per-dollar"])
def test_a_search_that_had_no_time_to_list_says_that_it_does_not_know(objective: str) -> None:
    hurried = twofold.plan(load(), **ASKED, objective=objective, time_limit_s=0.0, keep=3)
    sure, whole = hurried.certificate, twofold.plan(load(), **ASKED, objective=objective, samples=0).certificate
    assert (sure.stopped, sure.whole, sure.gap, sure.proved) == ("time", False, math.inf, 0)
    assert (whole.stopped, whole.whole, whole.gap) == (None, True, 0.0)
    assert 1 <= sure.candidates < whole.candidates
    assert {row["proved"] for row in hurried.rows} == {False}


def test_only_the_ranks_that_were_kept_are_proved() -> None:
    rows = twofold.plan(load(), **ASKED, keep=2, samples=0).rows
    assert len(rows) > 2
    assert [row["proved"] for row in rows] == [rank <= 2 for rank in range(1, len(rows) + 1)]


def test_a_front_has_the_tails_that_it_is_a_front_of() -> None:
    rows = twofold.plan(load(60), **ASKED, objective="pareto", target_rate=5.0, samples=0).rows
    assert all(row["p99_ttft_s"] > row["p99_tbt_s"] > 0.0 and row["proved"] for row in rows)
    assert {twofold.plan(load(60), **ASKED, samples=0).rows[0][name] for name in ("p99_ttft_s", "p99_tbt_s")} == {None}


def test_a_plan_says_up_to_which_size_its_steps_were_padded_to_graphs() -> None:
    padded = twofold.plan(load(60), **ASKED, samples=0, keep=1, roofline=Roofline(graph_tokens=256))
    assert padded.to_dict()["graph_tokens"] == 256
    assert twofold.plan(load(60), **ASKED, samples=0, keep=1).to_dict()["graph_tokens"] == 0


def test_an_interrupt_while_intervals_are_drawn_keeps_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("twofold.plan.search.intervals", interrupted)
    kept = twofold.plan(load(), **ASKED, keep=1)
    assert (kept.certificate.stopped, kept.certificate.gap, kept.best.confirmed) == ("interrupted", 0.0, True)


def test_a_summarisation_load_that_a_short_replay_flatters_is_named() -> None:
    """Lecture, section 5.1: 300 prompts of 4,000 tokens against a TTFT limit of 15 s."""
    workload = Synthetic(rate=2, requests=300, prompt="fixed:4096", output="fixed:8", seed=1).workload()
    asked = {"model": "llama-3-8b", "budget": "1xH100", "slo": "ttft<=15s @90%", "workers": 1}
    best = twofold.plan(workload, **asked, keep=1, samples=0).best
    assert best.trap is not None
    assert best.trap > 1.1 * best.found.rate
    assert probe(workload.at_rate(best.trap), best.deployment, Slo.parse("ttft<=15s @90%")).failed is None
    long = Synthetic(rate=2, requests=6000, prompt="fixed:4096", output="fixed:8", seed=2).workload()
    assert probe(long.at_rate(best.trap), best.deployment, Slo.parse("ttft<=15s @90%")).failed is not None
    assert probe(long.at_rate(0.9 * best.found.rate), best.deployment, Slo.parse("ttft<=15s @90%")).failed is None


def test_progress_names_the_leader() -> None:
    seen: list[tuple[int, int, str]] = []
    twofold.plan(load(), **ASKED, keep=1, samples=0, progress=lambda *told: seen.append(told))
    assert all(before[0] <= after[0] for before, after in itertools.pairwise(seen))
    assert seen[-1][0] == seen[-1][1] == 12
    assert "best" in seen[-1][2]


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ({"objective": "goodput-per-gpu"}, lambda row: row["goodput_req_s"] / row["devices"]),
        ({"objective": "goodput-per-dollar"}, lambda row: row["goodput_req_s"] / row["usd_per_hour"]),
        ({"objective": "goodput-per-watt"}, lambda row: row["goodput_req_s"] / row["watts"]),
    ],
)
def test_objectives_rank_by_the_rate_for_what_it_takes(
    options: dict[str, str], value: Callable[[dict[str, Any]], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twofold.plan.searches.LONG", 600)
    asked = ASKED | {"slo": "ttft<=1s, tpot<=90ms @90%", "samples": 0}
    rows = twofold.plan(load(), **(asked | {"budget": "2xL4"}), **options, keep=3).rows[:3]
    assert [value(row) for row in rows] == sorted(map(value, rows), reverse=True)
    fastest = [twofold.plan(load(), **(asked | {"budget": gpus}), keep=1).rows[0] for gpus in ("1xL4", "2xL4")]
    assert value(rows[0]) >= max(map(value, fastest)) * (1 - 1e-9)


def test_the_least_for_a_target_serves_it() -> None:
    asked = ASKED | {"budget": "H100 + L4", "model": "smollm2-135m", "slo": "ttft<=1s, tpot<=60ms @90%"}
    for objective in ("cost", "power"):
        made = twofold.plan(load(), **asked, objective=objective, target_rate=50.0, keep=1, samples=2)
        assert made.best.found.rate >= 50.0 * (1 - GRID.precision)
        assert made.best.low is not None
        assert made.best.low <= made.best.found.rate <= made.best.bound
        sure = made.certificate
        assert sure.pruned_by_bound + sure.pruned_by_probe + sure.measured == sure.candidates


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": "1xH100", "model": "llama-3-70b"}, "needs at least 2xH100"),
        ({"slo": "tpot<=1us"}, "nearest possible: tpot<="),
        ({"budget": "H100"}, "say how many there are"),
        ({"objective": "cost"}, "needs a rate"),
        ({"target_rate": 5.0}, "target-rate"),
        ({"objective": "cost", "target_rate": 200.0}, "target-rate.*out of reach"),
        ({"slo": "tpot<=1us", "objective": "cost", "target_rate": 5.0}, "nearest possible"),
    ],
)
def test_what_cannot_be_planned_is_said_in_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message) as error:
        twofold.plan(load(60), **(ASKED | options))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("arrivals", "message"), [([], "two requests"), ([0.0], "two requests"), ([1.0, 1.0, 1.0], "at once")]
)
def test_requests_without_a_rate_cannot_be_planned_for(arrivals: list[float], message: str) -> None:
    count = len(arrivals)
    workload = Workload("few", np.array(arrivals), np.full(count, 100), np.full(count, 10))
    with pytest.raises(SpecError, match=message):
        twofold.plan(workload, **ASKED)


def test_a_large_search_repeats_a_short_workload_until_a_replay_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twofold.plan.searches.LARGE", 10)
    found = twofold.plan(load(), **ASKED, keep=1, samples=0)
    times, left = divmod(len(found.workload), len(load()))
    assert times > 1
    assert left == 0
    assert len(found.workload) / found.best.found.rate > 5.0
