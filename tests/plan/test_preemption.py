import math

import numpy as np
import pytest
from cases import tight_case
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from twofold.errors import SpecError
from twofold.plan.demand import traffic_of
from twofold.plan.preemption import most_preempted, spared
from twofold.plan.work import Work
from twofold.simulate.run import simulate
from twofold.spec import catalog
from twofold.spec.group import Group
from twofold.spec.workload import Workload

MODEL, H100 = catalog.model("Llama-3-8B"), catalog.device("H100")


def works_of(case) -> list[Work]:
    traffic = traffic_of(case.workload)
    groups = [group for group in case.deployment.groups if group.role != "prefill"]
    return [Work("", traffic, group, group.device, case.model) for group in groups]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_a_run_preempts_no_more_decodes_than_that(seed):
    """Decode replicas that are not lent run no prompts, so all that they preempt are decodes."""
    rng = np.random.default_rng(seed)
    try:
        case = tight_case(rng)
        assume(len(case.deployment.groups) == 2 and case.deployment.groups[1].role == "decode")
        apart = case.deployment.replaced(mixed_pool=False)
        result = simulate(case.workload.at_rate(rng.uniform(20, 1e4)), apart, "ttft<=1s, tpot<=20ms")
    except SpecError:
        assume(False)
    replicas = result._sim.scheduler.replicas
    assert replicas.preemptions[replicas.home_role == 2].sum() <= most_preempted(works_of(case), False)


def work(rows: list[tuple[int, int]], **options) -> Work:
    prompt, output = (np.array(column) for column in zip(*rows, strict=True))
    workload = Workload("rows", np.arange(float(len(rows))), prompt, output)
    return Work("", traffic_of(workload), Group(**options), H100, MODEL)


def test_room_for_the_largest_batch_of_the_longest_means_no_preemption():
    ample = [(1000, 100)] * 300
    assert most_preempted([work(ample)], False) == 0.0
    assert most_preempted([work(ample, memory_fraction=0.21, admission="reserve")], False) == 0.0
    assert most_preempted([work(ample, memory_fraction=0.21, max_batch=3)], False) == 0.0
    assert most_preempted([work(ample, memory_fraction=0.21)], False) > 0.0
    assert most_preempted([work(ample)], True) == math.inf


@pytest.mark.parametrize(
    ("prompt", "output", "multiples"), [(15, 2, 0), (16, 2, 1), (16, 18, 2), (17, 16, 0), (9, 1, 0)]
)
def test_once_for_each_multiple_of_a_block(prompt, output, multiples):
    tight = [(prompt, output)] + [(4000, 1)] * 8
    assert most_preempted([work(tight, memory_fraction=0.21)], False) == multiples


def test_the_tokens_spared_are_those_that_take_most():
    each, decodes = np.array([1.0, 5.0, 3.0, -2.0]), np.array([9.0, 2.0, 4.0, 7.0])
    assert spared(0.0, each, decodes) == 0.0
    assert spared(3.0, each, decodes) == 2 * 5 + 3
    assert spared(8.0, each, decodes) == 2 * 5 + 4 * 3 + 2
    assert spared(math.inf, each, decodes) == 10 + 12 + 9
