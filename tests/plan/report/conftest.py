"""A plan as the report reads it: a few deployments of one small workload, measured and ranked."""

import pytest

import twofold
from twofold.plan.goodput import goodput
from twofold.plan.objective import Objective
from twofold.plan.pool import Threads
from twofold.plan.ranking import Candidate, Certificate, Plan
from twofold.plan.resources import parse_resources
from twofold.spec import catalog
from twofold.spec.slo import Slo
from twofold.spec.synthetic import Synthetic

DEPLOYMENTS = ("2B,chunked=512", "1P1D", "2B,prefill-first", "2B,multiplexed", "2B,chunked=2048")
SLO = "ttft<=0.5s, tpot<=20ms @90%"


def made(deployments, slo=SLO, name="made", requests=200, budget="2xH100", stopped=None, gap=0.0):
    """Measure ``deployments`` of Llama-3-8B on H100 and rank them; the interval and the certificate are invented."""
    lengths = {"prompt": "lognormal:755:0.6", "output": "lognormal:60:0.5"}
    workload = Synthetic(rate=10, requests=requests, **lengths, seed=3, name=name).workload()
    limits, tried = Slo.parse(slo), []
    for text in deployments:
        deployment = twofold.deployment(text, model="llama-3-8b", device="H100")
        found = goodput(workload, deployment, limits, guess=20.0, precision=0.1)
        around = {"low": found.rate * 0.95, "high": found.rate * 1.04, "swaps_with": (2,)}
        tried.append(Candidate(deployment, found, bound=2 * found.rate, bound_limit="prefill compute", **around))
    tried.sort(key=lambda each: -each.found.rate)
    certificate = Certificate(len(tried) + 34, 30, 4, len(tried), gap, stopped)
    model, resources = catalog.model("llama-3-8b"), parse_resources(budget)
    return Plan(tried, model, resources, limits, workload, Objective(), certificate)


@pytest.fixture(scope="session")
def plan():
    return made(DEPLOYMENTS)


@pytest.fixture(scope="session")
def evidence(plan):
    from twofold.plan.report.evidence import gather

    return gather(plan, pool=Threads(1))


@pytest.fixture(scope="session")
def make_plan():
    """The function that measures a plan of one's own."""
    return made


@pytest.fixture(scope="session")
def html(evidence):
    """The page of the plan."""
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    from twofold.plan.report.page import page
    from twofold.plan.report.pictures import pictures_of

    return page(evidence, pictures_of(evidence), 'twofold plan sample --slo "ttft<=0.5s"')
