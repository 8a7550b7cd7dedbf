"""Runs of vLLM are read as they were recorded."""

import numpy as np
import pytest
from made_sets import request

from twofold.errors import SpecError
from twofold.validate.vllm_run import read_vllm_run

REQUESTS = [
    request(1, 2.0, 2.1, 2.5, 3.5, 100, 11),
    request(0, 0.0, 0.0, 0.2, 1.2, 50, 21),
]


def test_times_are_on_one_clock_in_the_order_of_arrival(make_run):
    run = read_vllm_run(make_run(REQUESTS))
    np.testing.assert_allclose(run.arrival_s, [0.0, 2.0])
    np.testing.assert_allclose(run.ttft_s, [0.2, 0.5])
    np.testing.assert_allclose(run.tpot_s, [0.05, 0.1])
    np.testing.assert_allclose(run.e2e_s, [1.2, 1.5])
    assert (run.prompt.tolist(), run.output.tolist()) == ([50, 100], [21, 11])


def test_one_block_is_the_engines_own(make_run):
    assert read_vllm_run(make_run(REQUESTS)).kv_tokens == 1000 * 16


def test_every_request_has_a_content_of_its_own(make_run):
    workload = read_vllm_run(make_run(REQUESTS)).workload
    assert workload.hash_tokens == 16
    assert np.diff(workload.hash_start).tolist() == [(50 + 21) // 16, (100 + 11) // 16]
    assert len(set(workload.hash_ids.tolist())) == len(workload.hash_ids)


def test_a_plan_of_more_than_a_step_takes_shows_shared_prompts(make_run):
    together = [request(i, 0.0, 1.0, 2.0, 3.0, 400, 5) for i in range(3)]
    run = read_vllm_run(make_run(together))
    assert (run.crowded_steps(800), run.crowded_steps(801)) == (1, 0)


@pytest.mark.parametrize("spoilt", [{"input_toks": "many"}, {"first_token_ts": None}])
def test_a_bad_row_is_one_line(make_run, spoilt):
    with pytest.raises(SpecError, match="vllm"):
        read_vllm_run(make_run([REQUESTS[0] | spoilt]))


def test_a_folder_without_the_files_is_one_line(tmp_path):
    with pytest.raises(SpecError, match="cannot be read"):
        read_vllm_run(tmp_path)


@pytest.mark.parametrize(
    ("engine", "largest"),
    [({}, 512), ({"max_num_seqs": 128}, 256), ({"max_num_seqs": 1024}, 512), ({"enforce_eager": True}, 0)],
)
def test_graphs_are_vllms_default_unless_it_was_told_to_use_none(make_run, engine, largest):
    assert read_vllm_run(make_run(REQUESTS, engine_kwargs=engine)).graph_tokens == largest
