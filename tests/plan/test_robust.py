import json
from dataclasses import replace

import numpy as np
import pytest

import twofold
from twofold.errors import SpecError
from twofold.plan.goodput import PRECISION, Goodput, goodput
from twofold.plan.robust import Cell, Regret, RegretRow, regret
from twofold.spec.slo import Slo
from twofold.spec.synthetic import Synthetic
from twofold.spec.workload import Workload

SLO = Slo.parse("ttft<=0.3s, tpot<=20ms @90%")
TEXTS = ("2P,batch=32 + 1D,batch=32", "1P,batch=32 + 2D,batch=32", "3B,chunked=512,batch=32")


def deployments(*texts: str) -> list[twofold.deployment]:
    return [twofold.deployment(text, model="llama-3-8b", device="H100") for text in texts]


def load(name: str, prompt: int, output: int) -> Workload:
    lengths = {"prompt": f"lognormal:{prompt}:0.5", "output": f"lognormal:{output}:0.5"}
    return Synthetic(rate=10, requests=200, seed=1, name=name, **lengths).workload()


@pytest.fixture(scope="module")
def loads() -> list[Workload]:
    return [load("prompts", 2500, 20), load("outputs", 200, 400)]


@pytest.fixture(scope="module")
def found(loads: list[Workload]) -> Regret:
    return regret(loads, deployments(*TEXTS), SLO)


def test_each_workload_has_a_best_without_regret(found: Regret) -> None:
    for place in range(2):
        rates = [row.cells[place].found.rate for row in found.rows]
        shares = [row.cells[place].share for row in found.rows]
        assert max(shares) == 1.0
        assert shares == pytest.approx([rate / max(rates) for rate in rates])
    assert all(row.worst >= row.mean >= 0.0 for row in found.rows)


def test_the_cells_are_goodputs(found: Regret, loads: list[Workload]) -> None:
    for deployment, row in zip(deployments(*TEXTS), found.rows, strict=True):
        alone = goodput(loads[1], deployment, SLO)
        assert row.cells[1].found.rate == pytest.approx(alone.rate, rel=1.01 * PRECISION)


def test_a_ratio_for_prompts_regrets_outputs_and_the_other_way_round(found: Regret) -> None:
    for_prompts, for_outputs, _ = found.rows
    assert for_prompts.cells[0].share > for_outputs.cells[0].share
    assert for_prompts.cells[1].share < for_outputs.cells[1].share


def test_half_the_servers_regret_half() -> None:
    steady = Workload("steady", np.arange(200) * 1.0, np.full(200, 2048), np.ones(200))
    one, two = (f"{count}B,prefill-first,prefill-tokens=2048" for count in (1, 2))
    rows = regret([steady], deployments(one, two), "ttft<=60ms @99%").rows
    assert rows[0].worst == rows[0].mean == pytest.approx(0.5, abs=2 * PRECISION)
    assert rows[1].worst == 0.0


def table(*shares: tuple[float, float]) -> Regret:
    rows = [
        RegretRow(deployment, tuple(Cell(Goodput(share, 0.9, "ttft", 1), share) for share in row))
        for deployment, row in zip(deployments("1B", "2B", "3B"), shares, strict=True)
    ]
    return Regret(("a", "b"), SLO, tuple(rows))


def test_the_choice_is_by_the_worst_then_the_mean_then_the_order() -> None:
    assert str(table((1.0, 0.3), (0.6, 0.6), (0.2, 1.0)).least_regret.deployment) == "2B,chunked=512"
    assert str(table((0.6, 0.6), (0.6, 1.0), (0.2, 1.0)).least_regret.deployment) == "2B,chunked=512"
    assert str(table((0.6, 1.0), (1.0, 0.6), (0.2, 1.0)).least_regret.deployment) == "1B,chunked=512"


def test_it_is_json(found: Regret) -> None:
    written = json.loads(json.dumps(found.to_dict()))
    assert written["workloads"] == ["prompts", "outputs"]
    assert written["least_regret"] == str(found.least_regret.deployment)
    assert [row["deployment"] for row in written["rows"]] == list(TEXTS)


def test_progress_names_the_workload(loads: list[Workload]) -> None:
    seen: list[tuple[int, int, str]] = []
    short = [each.head(20) for each in loads]
    regret(short, deployments("1B,batch=4"), SLO, progress=lambda *told: seen.append(told))
    assert seen == [(0, 2, "prompts"), (1, 2, "outputs")]


def test_what_cannot_be_compared_is_refused(loads: list[Workload]) -> None:
    with pytest.raises(SpecError, match="workloads"):
        regret([], deployments("1B"), SLO)
    with pytest.raises(SpecError, match="deployments"):
        regret(loads, [], SLO)
    with pytest.raises(SpecError, match=r"prompts.*at any rate"):
        regret([loads[0].head(20)], deployments("1B"), replace(SLO, ttft_s=1e-4))
    with pytest.raises(SpecError, match=r"more than 3 requests.*at once"):
        regret([loads[1].head(3)], deployments("3B"), SLO)
