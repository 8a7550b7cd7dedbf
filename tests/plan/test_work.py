import math

import numpy as np
import pytest
from cases import MODELS
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.cost.step import Load, chunk_pairs, full_speed, stage_seconds
from twofold.plan.demand import traffic_of
from twofold.plan.work import Work
from twofold.spec import catalog
from twofold.spec.notation import parse_groups
from twofold.spec.workload import Workload

FULL = full_speed()
KNOWN = [catalog.model(each) for each in MODELS]


def work_of(text: str, rows: list[tuple[int, int]], model=KNOWN[0], lent=False) -> Work:
    prompt, output = (np.array(column) for column in zip(*rows, strict=True))
    workload = Workload("rows", np.arange(float(len(rows))), prompt, output)
    (group,) = parse_groups(text)
    return Work("key", traffic_of(workload), group, catalog.device("H100"), model, lent=lent)


@settings(max_examples=50, deadline=None)
@given(
    model=st.sampled_from(KNOWN),
    text=st.sampled_from(["1B,batch=64", "1B,batch=1", "1B,batch=8", "1B,pp2,batch=30"]),
    contexts=st.lists(st.integers(1, 5000), min_size=1, max_size=64),
    chunk=st.integers(0, 3000),
    start=st.integers(0, 3000),
)
def test_no_step_is_shorter_than_the_work_in_it(model, text, contexts, chunk, start):
    """One decode of each request, and a chunk of another: by multiplying and by reading."""
    most = work_of(text, [(1, 1)], model).batch
    work = work_of(text, [(context, 2) for context in contexts[:most]], model)
    decodes, total = len(work.traffic), int(work.traffic.context.sum())
    load = Load(decodes, total, chunk, chunk_pairs(start, chunk), start, decodes)
    seconds = stage_seconds(work.cost, load, FULL, work.cost.stages == 1) * (1 + 1e-9)
    assert seconds >= work.weights_s + work.decode_bytes_s.sum()
    assert seconds >= work.fixed_s + work.decode_flops_s.sum()
    if chunk:
        prompts = work_of(text, [(chunk, 1)], model)
        last = stage_seconds(work.cost, load._replace(rows=decodes + 1), FULL, work.cost.stages == 1) * (1 + 1e-9)
        assert last >= work.fixed_s + work.decode_flops_s.sum() + prompts.prefill_s.sum()
        alone = Load(0, 0, chunk, chunk_pairs(start, chunk), start, 0)
        assert stage_seconds(work.cost, alone, FULL, False) * (1 + 1e-9) >= prompts.bare_s


@pytest.mark.parametrize("model", KNOWN, ids=lambda model: model.name)
def test_a_lone_decode_step_is_met_exactly(model):
    work = work_of("1B", [(700, 2)], model)
    seconds = stage_seconds(work.cost, Load(1, 700, 0, 0, 0, 1), FULL, True)
    assert work.alone_gap_s()[0] == pytest.approx(seconds, rel=1e-9)


@settings(max_examples=50, deadline=None)
@given(
    contexts=st.lists(st.integers(1, 8000), min_size=1, max_size=200),
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=30),
    slack=st.floats(0.0, 1.0),
)
def test_no_division_into_steps_within_the_gap_has_fewer_steps(contexts, sizes, slack):
    work = work_of("1B", [(context, 2) for context in contexts])
    steps = divided(work.decode_bytes_s, sizes)
    gap = sum(len(step) * (work.weights_s + step.sum()) for step in steps) / len(contexts) * (1 + slack)
    found = work.gap_steps(gap, work.root)
    assert found is not None
    assert found.sum() <= len(steps) * (1 + 1e-9)


def divided(each: np.ndarray, sizes: list[int]) -> list[np.ndarray]:
    ends = np.cumsum(np.resize(sizes, len(each)))
    return [part for part in np.split(each, ends[ends < len(each)]) if len(part)]


def test_a_gap_shorter_than_the_weights_has_no_steps():
    work = work_of("1B", [(100, 10)])
    assert work.gap_steps(work.weights_s, work.root) is None


def test_equal_requests_reach_the_fewest_steps_of_a_gap():
    work = work_of("1B", [(1000, 2)] * 64)
    gap = work.weights_s + 16 * work.decode_bytes_s[0]
    steps = work.gap_steps(gap, work.root)
    assert steps is not None
    assert steps.sum() == pytest.approx(64 / 16, rel=1e-3)


def test_budgets_say_how_many_tokens_a_step_has():
    rows = [(1000, 11)]
    assert work_of("1B,chunked=512", rows).step_tokens == 512
    assert work_of("1B,chunked=64,batch=100", rows).step_tokens == 100
    assert work_of("1B,chunked=64,batch=100", rows).prompt_cap == 64
    assert work_of("1B,chunked=8,batch=10,prefill-every=2", rows).step_tokens == 10 + 16
    assert work_of("1B,chunked=8,prefill-every=2", rows).prompt_cap == 16
    for text in ("1B,chunked=20ms", "1B,mixed"):
        assert work_of(text, rows).prompt_cap == math.inf
        assert not work_of(text, rows).token_steps(True).any()
    assert work_of("1B,chunked=64", rows, lent=True).prompt_cap == math.inf


def test_whole_prompts_pass_all_stages_and_chunks_follow_each_other():
    rows = [(4096, 1)]
    whole, chunked = work_of("1B,pp4,prefill-first", rows), work_of("1B,pp4,chunked=512", rows)
    assert whole.alone_first_s()[0] >= 4 * whole.prefill_s[0]
    assert 2 * chunked.prefill_s[0] > chunked.alone_first_s()[0] > chunked.prefill_s[0]


def test_micro_batches_share_the_decodes():
    assert work_of("1B,pp4,batch=10", [(10, 10)]).batch == 3
    assert work_of("1B,batch=10", [(10, 10)]).batch == 10


def test_memory_holds_so_many_contexts_a_step():
    work = work_of("1B,memory=0.21", [(1000, 3)])
    assert work.memory_steps[0] * work.kv_tokens == 1000 + 1001
