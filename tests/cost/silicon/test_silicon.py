"""A model's step is the sum of the kernels that its layers run; what was not measured is refused in one line."""

import sys

import pytest
from made_tables import decode_ms, decodes, product_ms, products, prompt_ms, prompts

from twofold.cost.roofline import Roofline, step_seconds
from twofold.cost.silicon.kernels import read_table
from twofold.cost.silicon.silicon import Silicon
from twofold.cost.tables import read_costs
from twofold.errors import SpecError
from twofold.spec import catalog

H100 = catalog.device("H100")
ALL_REDUCE_MS = 0.02


def tables_at(model, tp=1):
    (tables,) = read_costs("silicon:vllm").measured(model, H100, tp).rows.values()
    return tables


def milliseconds(model, engine="vllm", device=H100, **step) -> float:
    return 1e3 * step_seconds(model, device, roofline=read_costs(f"silicon:{engine}"), **step)


def dense_ms(m: int) -> float:
    """Queries, keys and values; back; in twice; out; and three small kernels that the tables lack. Two layers."""
    four = product_ms(m, 512, 256) + product_ms(m, 256, 256) + product_ms(m, 1024, 256) + product_ms(m, 256, 512)
    numbers = 2 * 4 * 256 + 3 * 512
    return 2 * (four + 3 * 3e-3 + 1e3 * m * numbers * 2 / (H100.bandwidth * Roofline().byte_efficiency))


def test_a_step_is_the_sum_of_its_kernels(kernels, tiny):
    logits = product_ms(64, 1024, 256)
    expected = dense_ms(64) + logits + 2 * decode_ms(64, 1024)
    assert milliseconds(tiny, decode_contexts=[1024] * 64) == pytest.approx(expected)
    prompt = dense_ms(1024) + product_ms(1, 1024, 256) + 2 * prompt_ms(1024, 1024**2 / 2)
    assert milliseconds(tiny, prompts=[(0, 1024)]) == pytest.approx(prompt, rel=2e-3)
    assert "aiconfigurator_core" not in sys.modules


def test_a_chunk_after_others_takes_the_time_a_pair_of_its_prompt(kernels, tiny):
    alone = milliseconds(tiny, prompts=[(0, 64)])
    after = milliseconds(tiny, prompts=[(960, 64)])
    whole = 2 * prompt_ms(1024, 1024**2 / 2) * (64 * (1024 - 32)) / (1024**2 / 2)
    assert after - alone == pytest.approx(whole - 2 * prompt_ms(64, 64**2 / 2), rel=0.05)


def test_seconds_of_the_host_are_added_and_never_assumed(kernels, tiny):
    bare = read_costs("silicon:vllm")
    assert isinstance(bare, Silicon)
    hosted = bare.with_host(step_s=1e-3).with_host(layer_s=1e-4)
    times = [step_seconds(tiny, H100, decode_contexts=[1024], roofline=costs) for costs in (bare, hosted)]
    assert times[1] - times[0] == pytest.approx(1e-3 + 2 * 1e-4)
    with pytest.raises(SpecError, match=r"cost\.step_s"):
        bare.with_host(step_s=-1.0).record(tiny, H100)


def test_beyond_the_tables_steps_grow_as_the_roofline_does_and_the_reach_says_where(kernels, tiny):
    costs = read_costs("silicon:vllm")
    assert costs.reach(tiny, H100) == (1024, 64, 4096)
    assert costs.error("decode", tiny, H100) is None
    far, farther = (milliseconds(tiny, decode_contexts=[4096] * count) for count in (4096, 8192))
    assert 1.7 < farther / far < 2.1


def test_two_devices_exchange_twice_a_layer_sooner_in_a_graph(kernels, tiny):
    rows = [
        {"kernel_source": source, "num_gpus": 2, "message_size": size, "latency": ms}
        for source, ms in (("x_graph", ALL_REDUCE_MS), ("x_eager", 3 * ALL_REDUCE_MS))
        for size in (256, 256 * 2048)
    ]
    kernels("comm/vllm/1.0.9/custom_allreduce", rows)
    dense = tables_at(tiny, 2).dense
    kernels("comm/vllm/1.0.9/custom_allreduce", [row | {"latency": 0.0} for row in rows])
    free = dict(tables_at(tiny, 2).dense)
    extra = [1e3 * (seconds - free[m]) for m, seconds in dense]
    assert [m for m, _ in dense] == [1, 64, 1024]
    assert extra == pytest.approx([4 * ALL_REDUCE_MS, 4 * ALL_REDUCE_MS, 3 * 4 * ALL_REDUCE_MS])


def test_where_the_engine_has_none_the_all_reduce_is_that_of_nccl(kernels, tiny):
    row = {"kernel_source": "NCCL", "op_name": "all_reduce", "nccl_dtype": "half", "num_gpus": 2}
    with pytest.raises(SpecError, match=r"tp.*all-reduce"):
        read_costs("silicon:vllm").record(tiny, H100, tp=2)
    kernels("comm/nccl/2.9/nccl", [row | {"message_size": size, "latency": 0.5} for size in (256, 1 << 20)])
    assert dict(tables_at(tiny, 2).dense)[1] > 2 * 2 * 0.5e-3


def test_heads_between_those_that_were_measured_are_straight_between_them(write, tiny):
    write("gemm/vllm/1.0/gemm", products())
    write("attention/vllm/1.0/context_attention", prompts(2) + prompts(8))
    slow = [row | {"latency": 4 * row["latency"]} for row in decodes(8)]
    write("attention/vllm/1.0/generation_attention", decodes(2) + slow)
    line = tables_at(tiny).decodes[0]
    assert 1e3 * (line.base_s + line.each_s * 1024) == pytest.approx(2 * decode_ms(1, 1024) * (2 * 1 + 1 * 4) / 3)


def test_of_several_kernels_the_fastest_is_taken(kernels, tiny):
    step = {"decode_contexts": [1024] * 64, "prompts": [(0, 64)]}
    once = milliseconds(tiny, **step)
    for name, rows in (("context", prompts()), ("generation", decodes())):
        slow = [row | {"latency": 3 * row["latency"]} for row in rows]
        kernels(f"attention/vllm/1.0.10/{name}_attention", slow + rows + slow)
    assert milliseconds(tiny, **step) == once


def test_no_kernel_reads_faster_than_the_memory(kernels, tiny):
    rows = [row | {"latency": 1e-9} for row in decodes()]
    kernels("attention/vllm/1.0.10/generation_attention", rows)
    kv = 64 * 4096 * tiny.kv_bytes_per_token / H100.bandwidth
    contexts = [milliseconds(tiny, decode_contexts=[keys] * 64) for keys in (0, 4096)]
    assert contexts[1] - contexts[0] == pytest.approx(1e3 * kv, rel=1e-3)


def test_the_newest_version_is_taken_and_another_can_be_asked_for(kernels, tiny):
    old = [row | {"latency": 2 * row["latency"]} for row in products()]
    kernels("gemm/vllm/1.0.9/gemm", old)
    kernels("attention/vllm/1.0.9/context_attention", prompts())
    kernels("attention/vllm/1.0.9/generation_attention", decodes())
    new, before = (milliseconds(tiny, engine, decode_contexts=[1024]) for engine in ("vllm", "vllm@1.0.9"))
    assert before > 1.2 * new
    assert "H100 (vllm 1.0.10)" in read_costs("silicon:vllm").describe()


def test_experts_are_those_of_the_shape_the_dtype_and_uneven_routing(kernels, tiny):
    shape = {"hidden_size": 256, "inter_size": 128, "topk": 2, "num_experts": 16, "moe_tp_size": 1, "moe_ep_size": 1}
    rows = [
        shape | {"moe_dtype": "bfloat16", "distribution": routing, "num_tokens": tokens, "latency": ms}
        for routing, ms in (("balanced", 1.0), ("power_law_1.2", 2.0))
        for tokens in (1, 1024)
    ]
    kernels("moe/vllm/1.0.10/moe", rows)
    mixture = tiny.replaced(experts=16, experts_per_token=2, moe_ffn=128, ffn=0)
    first = tables_at(mixture).dense[0][1]
    kernels("moe/vllm/1.0.10/moe", [row | {"latency": 0.0} for row in rows])
    assert first - tables_at(mixture).dense[0][1] == pytest.approx(2 * 2.0e-3)
    reduce = {"kernel_source": "x", "num_gpus": 2, "message_size": 256, "latency": 0.01}
    kernels("comm/vllm/1.0.10/custom_allreduce", [reduce, reduce | {"message_size": 512}])
    with pytest.raises(SpecError, match=r"experts.*accepted with vllm 1\.0\.10 on h100_sxm: tp 1"):
        read_costs("silicon:vllm").record(mixture, H100, tp=2)


@pytest.mark.parametrize(
    ("changes", "device", "said"),
    [
        ({"weight_dtype": "fp8"}, "H100", "weight_dtype.*accepted with these tables: bf16"),
        ({"kv_dtype": "fp8"}, "H100", "heads of a device.*2 of keys"),
        ({"heads": 12}, "H100", "heads of a device.*accepted with 2 of keys: 4"),
        ({"kv_heads": 4}, "H100", "heads of a device.*none of queries"),
        ({"kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8}, "H100", "kv_lora_rank"),
        ({}, "A100", "device.*accepted with silicon:vllm: H100"),
    ],
)
def test_what_was_not_measured_is_one_line(kernels, tiny, changes, device, said):
    model, costs = tiny.replaced(**changes), read_costs("silicon:vllm")
    assert not costs.knows(model, catalog.device(device), 1)
    with pytest.raises(SpecError, match=said):
        costs.record(model, catalog.device(device))


def test_power_caps_are_refused(kernels, tiny):
    assert not read_costs("silicon:vllm").knows(tiny, H100, 1, H100.tdp_w / 2)


@pytest.mark.parametrize(
    ("name", "engine", "said"),
    [
        ("silicon:sglang", None, "accepted: silicon:vllm"),
        ("silicon:vllm@9", None, "accepted versions: 1.0.10"),
        ("silicon:vllm", "vllm", r"cost\.engine"),
    ],
)
def test_another_engine_or_version_is_one_line(kernels, name, engine, said):
    with pytest.raises(SpecError, match=said):
        read_costs(name, engine)


def test_a_broken_table_is_named(kernels, tiny):
    file = kernels("gemm/vllm/1.0.10/gemm", [{"m": 1}])
    with pytest.raises(SpecError, match=r"gemm_perf\.parquet.*gemm_dtype"):
        read_costs("silicon:vllm").record(tiny, H100)
    read_table.cache_clear()
    file.write_bytes(b"not a table")
    with pytest.raises(SpecError, match=r"gemm_perf\.parquet.*a readable parquet file"):
        tables_at(tiny)


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("twofold.cost.silicon.kernels.PACKAGE", "no_such_package")
    with pytest.raises(SpecError, match=r"pip install 'twofold\[silicon\]'"):
        read_costs("silicon:vllm")
