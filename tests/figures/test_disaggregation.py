"""The trap of section 5.1: what a finite run seems to sustain."""

import pytest

from twofold.figures.applications import SUMMARIES, disaggregated
from twofold.figures.disaggregation import attained_rate
from twofold.plan.goodput import goodput
from twofold.simulate.attainment import attainment_of
from twofold.simulate.run import simulate
from twofold.spec.slo import Slo


def test_attainment_alone_flatters_an_overloaded_system() -> None:
    slo, deployment = Slo.parse(SUMMARIES.slo), disaggregated("3P2D", "opt-13b", "A100")
    workload = SUMMARIES.workload(0, "opt-13b")
    seeming = attained_rate(workload, deployment, slo)
    assert seeming > 2 * goodput(workload, deployment, slo, guess=20.0).rate
    assert attainment_of(simulate(workload.at_rate(seeming), deployment, slo), slo) >= 0.9
    assert attainment_of(simulate(workload.at_rate(1.03 * seeming), deployment, slo), slo) < 0.9


def test_where_nothing_is_to_gain_both_rates_agree() -> None:
    slo, deployment = Slo.parse("ttft<=1s, tpot<=0.1s"), disaggregated("1P1D", "opt-13b", "A100")
    workload = SUMMARIES.workload(1, "opt-13b")
    assert attained_rate(workload, deployment, slo) == pytest.approx(goodput(workload, deployment, slo).rate, rel=0.03)
