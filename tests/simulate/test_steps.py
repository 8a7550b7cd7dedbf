"""What a step may hold, read from the timelines of whole runs."""

import numpy as np
import pytest
from harness import digest, draw, listed, run, steps
from hypothesis import given, settings
from hypothesis import strategies as st

UNLIMITED = 10**9


def between_tokens(result, start):
    """Requests that have their first token at ``start`` and not yet their last."""
    life = result._sim.life
    return int(((life.first_token <= start) & (life.finish > start)).sum())


@given(seed=st.integers(0, 999), rate=st.sampled_from((5, 30, 200)))
@settings(deadline=None, max_examples=8)
def test_chunked_without_a_budget_is_mixed_step_for_step(seed, rate):
    workload = draw(60, rate, seed)
    chunked = run(f"1B,chunked={UNLIMITED}", workload, timeline=True)
    mixed = run(f"1B,mixed,prefill-tokens={UNLIMITED}", workload, timeline=True)
    assert len(steps(chunked)) > 20
    assert steps(chunked).tobytes() == steps(mixed).tobytes()
    assert digest(chunked) == digest(mixed)


@pytest.mark.parametrize("budget", [16, 128, 512])
@given(seed=st.integers(0, 999))
@settings(deadline=None, max_examples=5)
def test_no_step_of_chunked_is_over_its_budget_and_all_decodes_are_in_it(budget, seed):
    result = run(f"1B,chunked={budget}", draw(60, 30, seed), timeline=True, step_by_step=True)
    for step in steps(result):
        assert step.decodes + step.prompt_tokens <= budget or step.prompt_tokens == 0
        assert step.decodes == between_tokens(result, step.start)


@given(seed=st.integers(0, 999), budget_ms=st.sampled_from((8, 12, 25)))
@settings(deadline=None, max_examples=8)
def test_no_step_with_a_prompt_takes_longer_than_a_budget_in_time(seed, budget_ms):
    result = run(f"1B,chunked={budget_ms}ms", draw(60, 30, seed), timeline=True, step_by_step=True)
    line = steps(result)
    with_prompt = line[line.prompt_tokens > 0]
    assert (with_prompt.end - with_prompt.start).max() <= 1e-3 * budget_ms + 1e-12
    assert all(step.decodes == between_tokens(result, step.start) for step in line)


def longest_stretch(flags):
    longest = current = 0
    for flag in flags:
        current = current + 1 if flag else 0
        longest = max(longest, current)
    return longest


@pytest.mark.parametrize("every", [1, 2, 5])
def test_waiting_prompts_get_a_chunk_in_every_so_many_steps(every):
    rows = [(0.0, 16, 400)] * 32 + [(1.0, 500, 2)] * 4
    starving = run("1B,chunked=32", listed(*rows), timeline=True, step_by_step=True)
    served = run(f"1B,chunked=32,prefill-every={every}", listed(*rows), timeline=True, step_by_step=True)

    def without_prompts(result):
        last = result._sim.life.first_token[-4:].max()
        waiting = [step for step in steps(result) if step.start >= 1.0 and step.end <= last]
        return longest_stretch([step.prompt_tokens == 0 for step in waiting])

    assert without_prompts(starving) > 50
    assert without_prompts(served) == every - 1


@pytest.mark.parametrize("every", [1, 2, 5])
def test_waiting_decodes_get_a_step_in_every_so_many(every):
    workload = listed(*((0.01 * i, 4000, 30) for i in range(30)))

    def without_decodes(text):
        result = run(text, workload, timeline=True, step_by_step=True)
        decodable = [step for step in steps(result) if between_tokens(result, step.start)]
        return longest_stretch([step.decodes == 0 for step in decodable])

    assert without_decodes("1B,prefill-first") > 10
    assert without_decodes(f"1B,prefill-first,decode-every={every}") == every - 1


@pytest.mark.parametrize("policy", ["prefill-first", "mixed"])
def test_whole_prompts_share_a_step_up_to_the_cap(policy):
    result = run(f"1B,{policy},prefill-tokens=3000", draw(60, 200, 5), timeline=True, step_by_step=True)
    tokens = steps(result).prompt_tokens
    several = np.unique(tokens[tokens > 0])
    longest = result.workload.prompt_tokens.max()
    assert several.max() <= max(3000, longest)
    assert tokens.sum() == result.workload.prompt_tokens.sum()


def test_prefill_first_never_mixes_and_request_level_finishes_its_batch():
    workload = draw(60, 60, 6)
    line = steps(run("1B,prefill-first", workload, timeline=True, step_by_step=True))
    assert not ((line.decodes > 0) & (line.prompt_tokens > 0)).any()
    result = run("1B,request-level", workload, timeline=True, step_by_step=True)
    life = result._sim.life
    for step in steps(result):
        if step.prompt_tokens > 0:
            assert between_tokens(result, step.start) == 0
    assert np.isfinite(life.finish).all()


def test_a_budget_in_time_that_holds_no_token_still_computes_one_at_a_time():
    workload = draw(3, 30, 1)
    result = run("1B,chunked=1ms", workload, timeline=True, step_by_step=True)
    line = steps(result)
    with_prompt = line[line.prompt_tokens > 0]
    assert set(with_prompt.prompt_tokens) == {1}
    assert len(with_prompt) == workload.prompt_tokens.sum()
