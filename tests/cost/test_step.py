"""The roofline: the lecture's constants, parallelism, experts, latent attention."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.cost.roofline import Roofline, cost_record, step_seconds
from twofold.cost.step import Load, at, chunk_pairs, full_speed, stage_line, stage_seconds
from twofold.cost.step import step_seconds as seconds_of
from twofold.errors import SpecError
from twofold.spec import catalog

LLAMA, H100 = catalog.model("llama-3-8b"), catalog.device("H100")
FULL = full_speed()


def decodes(count, context=1024):
    return Load(count, count * context, 0, 0, 0, count)


@pytest.mark.parametrize(("riding", "milliseconds"), [(0, 7.70), (256, 7.72), (512, 11.64)])
def test_32_decodes_with_riding_prompt_tokens_are_those_of_the_lecture(riding, milliseconds):
    prompts = [(0, riding)] if riding else []
    seconds = step_seconds(LLAMA, H100, prompts=prompts, decode_contexts=[1024] * 32)
    assert 1e3 * seconds == pytest.approx(milliseconds, abs=0.02)


def test_a_prompt_alone_is_that_of_the_lecture():
    assert 1e3 * step_seconds(LLAMA, H100, prompts=[(0, 4096)]) == pytest.approx(89, abs=1)


def test_a_decode_step_reads_weights_and_kv_once():
    read = LLAMA.layer_params * 2 + LLAMA.lm_head_params * 2 + 32 * 4096 * 2
    kv = 32 * 1025 * LLAMA.kv_bytes_per_token
    expected = (read + kv) / (0.8 * 3.35e12) + 0.5e-3
    assert step_seconds(LLAMA, H100, decode_contexts=[1024] * 32) == pytest.approx(expected, rel=1e-12)


@given(start=st.integers(0, 10**6), one=st.integers(1, 5000), two=st.integers(1, 5000))
def test_chunks_of_a_prompt_make_all_its_pairs(start, one, two):
    whole = chunk_pairs(start, one + two)
    assert abs(whole - chunk_pairs(start, one) - chunk_pairs(start + one, two)) <= 1


@given(count=st.integers(1, 256), context=st.integers(1, 100_000), prompt=st.integers(0, 8192))
def test_more_work_never_takes_less_time(count, context, prompt):
    cost = cost_record(LLAMA, H100)[0]
    load = Load(count, context, prompt, chunk_pairs(0, prompt), 0, count)
    seconds = seconds_of(cost, load, FULL)
    assert seconds_of(cost, load._replace(context=context + 1000), FULL) >= seconds
    assert seconds_of(cost, load._replace(decodes=count + 1, rows=count + 1), FULL) >= seconds
    assert seconds_of(cost, load._replace(prompt_tokens=prompt + 64), FULL) >= seconds
    assert at(stage_line(cost, load, FULL, True), context) == stage_seconds(cost, load, FULL, True)


@pytest.mark.parametrize("tp", [2, 4, 8])
def test_tensor_parallel_pays_two_ring_all_reduces_a_layer(tp):
    cost, link = cost_record(LLAMA, H100, tp=tp)[0], catalog.link("NVLink4")
    tokens = 64
    one = 2 * (tp - 1) * link.latency_s + 2 * (tp - 1) / tp * tokens * 4096 * 2 / link.effective
    assert cost.exchange_s + cost.exchange_token_s * tokens == pytest.approx(64 * one, rel=1e-12)
    assert cost.token_flops == pytest.approx(2 * LLAMA.layer_params / tp)


def test_one_device_exchanges_nothing():
    cost = cost_record(LLAMA, H100)[0]
    assert cost.exchange_s == cost.exchange_token_s == cost.hop_s == cost.hop_token_s == 0.0


def test_kv_heads_are_cut_until_each_device_has_one():
    assert cost_record(LLAMA, H100, tp=8)[0].kv_bytes == LLAMA.kv_bytes_per_token / 8
    assert cost_record(LLAMA, H100, tp=16)[0].kv_bytes == LLAMA.kv_bytes_per_token / 8


def test_pipeline_stages_divide_the_layers_and_pass_activations_on():
    whole, half = cost_record(LLAMA, H100)[0], cost_record(LLAMA, H100, pp=2)[0]
    load = Load(0, 0, 4096, chunk_pairs(0, 4096), 0, 1)
    middle, last = stage_seconds(half, load, FULL, False), stage_seconds(half, load, FULL, True)
    hop = catalog.link("NVLink4").latency_s + 4096 * 4096 * 2 / catalog.link("NVLink4").effective
    assert seconds_of(half, load, FULL) == pytest.approx(middle + last + hop, rel=1e-12)
    assert middle + last == pytest.approx(seconds_of(whole, load, FULL), rel=1e-3)


def test_experts_that_a_batch_touches_are_read():
    model = catalog.model("qwen3-30b-a3b")
    cost = cost_record(model, H100)[0]
    for tokens in (1, 8, 64, 4096):
        line = stage_line(cost, Load(tokens, 0, 0, 0, 0, 0), FULL, True)
        experts = 128 * (1 - (1 - 8 / 128) ** tokens)
        assert experts == pytest.approx(model.experts_touched(tokens))
        read = cost.weight_bytes + tokens * (cost.embedding_bytes + cost.kv_bytes)
        read += experts * model.expert_bytes * model.moe_layers
        assert line.bytes == pytest.approx(read / cost.byte_rate, rel=1e-9)


def test_a_large_batch_of_experts_reads_all_weights_and_multiplies_only_the_active():
    model = catalog.model("qwen3-30b-a3b")
    cost = cost_record(model, H100)[0]
    read = cost.weight_bytes + cost.row_bytes + cost.experts * cost.expert_bytes
    assert read == pytest.approx(model.weight_bytes - model.embedding_params * 2, rel=1e-3)
    assert cost.token_flops == 2 * model.layer_params


def test_expert_parallel_replaces_the_all_reduce_of_the_expert_layers():
    model = catalog.model("qwen3-30b-a3b")
    cut, spread = (cost_record(model, H100, tp=8, expert_parallel=ep)[0] for ep in (False, True))
    link = catalog.link("NVLink4")
    both = 2 * 8 * (model.hidden * 2) / 8 * 7 / 8 / link.effective
    one = 2 * 7 / 8 * model.hidden * 2 / link.effective
    assert cut.exchange_token_s == pytest.approx(96 * one)
    assert spread.exchange_token_s == pytest.approx(48 * (one + both))


def test_latent_attention_keeps_its_kv_whole_on_every_device():
    model = catalog.model("deepseek-v3")
    assert model.kv_bytes_per_token == 61 * (512 + 64) * 2
    costs = [cost_record(model, catalog.device("H200"), tp=tp)[0] for tp in (1, 8)]
    assert costs[0].kv_bytes == costs[1].kv_bytes == model.kv_bytes_per_token


@pytest.mark.parametrize(
    ("options", "field"),
    [({"tp": 3}, "tp"), ({"pp": 33}, "pp"), ({"pp": 0}, "pp"), ({"tp": 2, "expert_parallel": True}, "ep")],
)
def test_what_cannot_be_cut_is_refused(options, field):
    with pytest.raises(SpecError, match=field):
        cost_record(LLAMA, H100, **options)


@pytest.mark.parametrize(
    "constants",
    [
        {"flop_efficiency": 0.0},
        {"byte_efficiency": 1.1},
        {"step_overhead_s": -1.0},
        {"power_exponent": 0.5},
        {"host_bytes_per_s": 0.0},
    ],
)
def test_constants_out_of_range_are_refused(constants):
    with pytest.raises(SpecError, match=next(iter(constants))):
        Roofline(**constants)


def test_constants_are_used():
    base = step_seconds(LLAMA, H100, prompts=[(0, 8192)]) - 0.5e-3
    halved = step_seconds(LLAMA, H100, prompts=[(0, 8192)], roofline=Roofline(flop_efficiency=0.35)) - 0.5e-3
    idle = step_seconds(LLAMA, H100, prompts=[(0, 8192)], roofline=Roofline(step_overhead_s=0.0))
    assert halved == pytest.approx(2 * base)
    assert idle == pytest.approx(base)
    assert math.isfinite(np.float64(idle))
