import json
import shlex
from typing import Any

import pytest

ON_ONE = ("--model", "llama-3-8b", "--gpus", "1xH100", "--slo", "ttft<=0.3s, tpot<=30ms @90%")
POOL = "1P + 1D (mixed pool)"
QUICK = ("--workers", "1", "--top", "1", "--resamples", "0", "--no-cache")
MADE = ("--rate", "300/min", "--requests", "120", "--prompt", "fixed:900", "--output", "fixed:60", "--seed", "4")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer replays that are not long, so that what they confirm is the goodput of the requests themselves."""
    monkeypatch.setattr("twofold.plan.searches.LONG", 200)


@pytest.mark.parametrize("more", [(), ("--set", "cost.flop_efficiency=0.5"), ("--set", "workload.name=ours")])
def test_the_command_for_made_requests_gives_the_goodput_of_the_plan(here: Any, more: tuple[str, ...]) -> None:
    plan = json.loads(here("plan", *MADE, *ON_ONE, *QUICK, *more, "--json").out)
    assert plan["best"]["trap_req_s"] is None
    run = json.loads(here(*shlex.split(plan["as_simulated"])[1:], "--json").out)
    assert run["rate_req_s"] == pytest.approx(plan["best"]["goodput_req_s"], rel=1e-6)
    assert run["attainment"] == pytest.approx(plan["best"]["attainment"])
    assert f"As simulated:\n{plan['as_simulated']}\n" in here("plan", *MADE, *ON_ONE, *QUICK, *more).out


def test_requests_that_no_flags_make_faster_have_no_command(here: Any) -> None:
    shown = here("plan", *MADE, *ON_ONE, *QUICK, "--set", "workload.rate=5")
    assert "Not as simulated: no flags make these requests" in shown.out
    assert "\nAs simulated" not in shown.out


def test_where_only_a_longer_replay_gave_the_goodput_it_is_said(here: Any) -> None:
    few = ("--rate", "5", "--requests", "3", "--prompt", "fixed:900", "--output", "fixed:20")
    shown = here("plan", *few, *ON_ONE, *QUICK)
    assert "a longer replay of these requests, which no `twofold simulate` of them makes" in shown.out


def test_a_deployment_with_a_mixed_pool_is_pasted_back(here: Any) -> None:
    asked = ("--requests", "40", "--model", "llama-3-8b", "--device", "H100", "--json")
    plain, mixed = (json.loads(here("simulate", "sample", *asked, "--deploy", text).out) for text in ("1P1D", POOL))
    fields = json.loads(
        here("simulate", "sample", *asked, "--deploy", "1P1D", "--set", "deployment.mixed_pool=true").out
    )
    assert mixed == fields
    assert plain["borrowed"] == 0
