import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.errors import SpecError
from twofold.spec import catalog
from twofold.spec.model import DTYPE_BYTES, Model, dtype_bytes

# Exact counts, as Hugging Face shows them for the checkpoints.
EXACT = {
    "OPT-13B": 12_853_473_280,
    "Llama-2-7B": 6_738_415_616,
    "Llama-2-70B": 68_976_648_192,
    "Llama-3-8B": 8_030_261_248,
    "Llama-3-70B": 70_553_706_496,
    "Llama-3.1-405B": 405_853_388_800,
    "Llama-3.2-1B": 1_235_814_400,
    "Llama-3.2-3B": 3_212_749_824,
    "Qwen2.5-0.5B": 494_032_768,
    "Qwen2.5-1.5B": 1_543_714_304,
    "Qwen2.5-3B": 3_085_938_688,
    "Qwen2.5-7B": 7_615_616_512,
    "Qwen2.5-14B": 14_770_033_664,
    "Qwen2.5-32B": 32_763_876_352,
    "Qwen2.5-72B": 72_706_203_648,
    "Qwen3-0.6B": 596_049_920,
    "Qwen3-4B": 4_022_468_096,
    "Qwen3-8B": 8_190_735_360,
    "Qwen3-14B": 14_768_307_200,
    "Qwen3-32B": 32_762_123_264,
    "Qwen3-30B-A3B": 30_532_122_624,
    "Qwen3-235B-A22B": 235_093_634_560,
    "Mistral-7B": 7_241_732_096,
    "Mixtral-8x7B": 46_702_792_704,
    "Yi-34B": 34_388_917_248,
    "Falcon-180B": 179_522_565_120,
    "BLOOM-176B": 176_247_271_424,
    "SmolLM2-135M": 134_515_008,
    "SmolLM2-360M": 361_821_120,
    "SmolLM2-1.7B": 1_711_376_384,
}

# As the model cards and papers round them.
ROUNDED = {
    "OPT-66B": 65.7e9,
    "OPT-175B": 175e9,
    "CodeLlama-34B": 33.7e9,
    "DeepSeek-V3": 671e9,
    "gpt-oss-20b": 20.91e9,
    "gpt-oss-120b": 116.83e9,
}

KV_BYTES = {
    "Llama-3-8B": 131_072,
    "Llama-3-70B": 327_680,
    "OPT-13B": 819_200,
    "OPT-66B": 2_359_296,
    "DeepSeek-V3": 61 * 576 * 2,
}


def small(**changes: object) -> Model:
    fields = {"name": "small", "layers": 2, "hidden": 8, "heads": 4, "kv_heads": 2, "head_dim": 2}
    return Model(**{**fields, "ffn": 16, "vocab": 32, **changes})


@pytest.mark.parametrize(("name", "published"), EXACT.items())
def test_published_parameters_come_out_exactly(name: str, published: int) -> None:
    assert catalog.model(name).total_params == published


@pytest.mark.parametrize(("name", "published"), ROUNDED.items())
def test_rounded_parameters_come_out_within_half_a_percent(name: str, published: float) -> None:
    assert catalog.model(name).total_params == pytest.approx(published, rel=0.005)


@pytest.mark.parametrize(
    ("name", "published", "counts_embedding"),
    [
        ("DeepSeek-V3", 36.6e9, False),
        ("gpt-oss-20b", 3.61e9, False),
        ("gpt-oss-120b", 5.13e9, False),
        ("Qwen3-30B-A3B", 3.35e9, True),
        ("Qwen3-235B-A22B", 22.2e9, True),
        ("Mixtral-8x7B", 12.9e9, True),
    ],
)
def test_active_parameters(name: str, published: float, counts_embedding: bool) -> None:
    model = catalog.model(name)
    active = model.active_params - (not counts_embedding) * model.embedding_params
    assert active == pytest.approx(published, rel=0.005)


@pytest.mark.parametrize(("name", "size"), KV_BYTES.items())
def test_kv_bytes_of_a_token(name: str, size: int) -> None:
    assert catalog.model(name).kv_bytes_per_token == size


def test_weight_bytes_of_mixed_dtypes_match_the_checkpoint() -> None:
    # Size of the three safetensors files of openai/gpt-oss-20b.
    assert catalog.model("gpt-oss-20b").weight_bytes == pytest.approx(13.76e9, rel=0.005)
    assert catalog.model("llama-3-8b").weight_bytes == 2 * EXACT["Llama-3-8B"]


@pytest.mark.parametrize("model", catalog.models(), ids=lambda model: model.name)
def test_parts_add_up(model: Model) -> None:
    routed = model.moe_layers * model.expert_params
    assert model.layer_params == model.dense_layer_params + routed * model.experts_per_token
    unused = routed * (model.experts - model.experts_per_token) if model.experts else 0
    assert model.active_params == model.total_params - unused
    assert 0 < model.active_params <= model.total_params
    assert model.lm_head_params == model.vocab * model.hidden


def test_attention_flops_of_a_pair() -> None:
    assert catalog.model("llama-3-8b").attention_flops_per_pair == 4 * 32 * 32 * 128
    assert catalog.model("deepseek-v3").attention_flops_per_pair == 2 * 61 * 128 * (192 + 128)


def test_sliding_window_bounds_the_kv_of_a_request() -> None:
    model = catalog.model("gpt-oss-20b")
    assert model.kv_bytes(128) == 128 * model.kv_bytes_per_token
    assert model.kv_bytes(10_000) == model.kv_bytes_per_token * (12 * 10_000 + 12 * 128) // 24
    assert catalog.model("llama-3-8b").kv_bytes(10_000) == 10_000 * 131_072


@given(st.integers(1, 64), st.integers(1, 64), st.floats(0, 1e6))
def test_touched_experts_stay_between_one_token_and_all(chosen: int, more: int, tokens: float) -> None:
    experts = chosen + more - 1
    model = small(experts=experts, experts_per_token=chosen, moe_ffn=4)
    touched = model.experts_touched(tokens)
    assert 0 <= touched <= experts
    assert model.experts_touched(1) == pytest.approx(chosen)
    assert touched <= chosen * tokens + 1e-9 or tokens < 1
    assert model.experts_touched(tokens + 1) >= touched


def test_dense_model_touches_no_expert() -> None:
    assert small().experts_touched(100) == 0.0
    assert small().expert_params == 0


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"kv_heads": 3}, "kv_heads"),
        ({"layers": 0}, "layers"),
        ({"ffn": 0}, "ffn"),
        ({"kv_lora_rank": 8}, "kv_lora_rank"),
        ({"experts": 4, "moe_ffn": 4}, "experts_per_token"),
        ({"experts": 4, "experts_per_token": 2}, "moe_ffn"),
        ({"experts": 4, "experts_per_token": 2, "moe_ffn": 4, "dense_layers": 3}, "dense_layers"),
        ({"sliding_window": 4}, "sliding_layers"),
        ({"weight_dtype": "fp12"}, "weight_dtype"),
        ({"hiden": 8}, "hiden"),
    ],
)
def test_bad_field_is_named_in_one_line(changes: dict[str, object], field: str) -> None:
    with pytest.raises(SpecError) as caught:
        small(**changes)
    assert caught.value.field == field
    assert "\n" not in str(caught.value)


def test_dtype_bytes() -> None:
    assert [dtype_bytes(name) for name in ("fp32", "bf16", "fp8")] == [4.0, 2.0, 1.0]
    assert all(0.5 < DTYPE_BYTES[name] < 0.6 for name in ("fp4", "mxfp4", "int4"))
    assert math.isclose(dtype_bytes("mxfp4"), 4.25 / 8)
    with pytest.raises(SpecError, match="fp12"):
        dtype_bytes("fp12")
