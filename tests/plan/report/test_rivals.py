from dataclasses import replace

from twofold.plan.goodput import goodput
from twofold.plan.pool import Threads
from twofold.plan.report import rivals
from twofold.plan.report.kinds import kind_of
from twofold.plan.report.rivals import champions, of_each_kind
from twofold.spec.replays import repeated


def test_there_is_one_of_each_kind_and_the_best_comes_first(plan, evidence):
    kinds = [champion.kind for champion in evidence.champions]
    assert sorted(kinds) == ["chunked", "disaggregated", "mixed", "multiplexed", "prefill-first"]
    assert evidence.champions[0].candidate is plan.best
    others = [champion.candidate.found.rate for champion in evidence.champions[1:]]
    assert others == sorted(others, reverse=True)


def test_a_champion_has_the_rank_that_it_has_in_the_plan(plan, evidence):
    for champion in evidence.champions:
        if champion.rank is not None:
            assert plan.candidates[champion.rank - 1] is champion.candidate
        else:
            assert champion.name not in [candidate.label for candidate in plan.candidates]


def test_no_deployment_of_its_kind_is_better(plan, evidence):
    """Tried one by one, for a kind of few deployments; where a longer run sustains less, that is what counts."""
    champion = next(each for each in evidence.champions if each.kind == "prefill-first")
    longer = repeated(plan.workload, 20)
    tried = [entry.deployment for entry in of_each_kind(plan)["prefill-first"]]
    assert len(tried) > 2
    for deployment in tried:
        rates = [goodput(requests, deployment, plan.slo, guess=20.0).rate for requests in (plan.workload, longer)]
        assert min(rates) <= champion.candidate.found.rate * 1.05


def test_all_run_on_the_devices_of_the_best(plan):
    for kind, entries in of_each_kind(plan).items():
        assert all(kind_of(entry.deployment) == kind for entry in entries)
        assert all(entry.deployment.devices_total <= plan.best.deployment.devices_total for entry in entries)
        assert [entry.bound.rate for entry in entries] == sorted((e.bound.rate for e in entries), reverse=True)


def test_a_larger_deployment_of_the_plan_is_not_the_champion(plan, make_plan):
    small, large = make_plan(("1B,chunked=512",), requests=60), make_plan(("2B,mixed",), requests=60)
    both = replace(small, candidates=[*small.candidates, *large.candidates])
    mixed = next(each for each in champions(both, Threads(1)) if each.kind == "mixed")
    assert mixed.rank is None
    assert mixed.candidate.deployment.devices_total == 1


def test_only_so_many_of_a_kind_are_tried(plan, monkeypatch):
    monkeypatch.setattr(rivals, "MOST", 1)
    assert {len(entries) for entries in of_each_kind(plan).values()} == {1}


def test_a_kind_that_sustains_nothing_is_absent(plan, monkeypatch):
    monkeypatch.setattr(rivals.Certifier, "run", lambda self: [])
    assert [champion.candidate for champion in champions(plan, Threads(1))] == [plan.best]
