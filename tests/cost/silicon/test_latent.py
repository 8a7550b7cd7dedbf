"""Latent attention: a module less the products it holds, or kernels alone, for the heads and the cache asked for."""

import pytest
from made_tables import (
    FEW,
    carried,
    carried_ms,
    latent_decode_ms,
    latent_decodes,
    latent_prompt_ms,
    latent_prompts,
    module_decodes,
    module_prompts,
    product_ms,
)

from twofold.cost.roofline import step_seconds
from twofold.cost.tables import read_costs
from twofold.errors import SpecError
from twofold.spec import catalog

H100, DEEPSEEK = catalog.device("H100"), catalog.model("deepseek-v3")
LATENT = {
    name: getattr(DEEPSEEK, name) for name in ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
}
HEADS = 4
QUERIES, LATENTS, UP, BACK = HEADS * (128 + 64), 512 + 64, HEADS * (128 + 128), HEADS * 128


@pytest.fixture
def latent(tiny):
    """``tiny`` with the latents of DeepSeek, its queries straight from the hidden state."""
    return tiny.replaced(**LATENT, kv_heads=HEADS)


@pytest.fixture
def modules(kernels):
    kernels("mla/vllm/1.0.10/mla_context_module", module_prompts())
    kernels("mla/vllm/1.0.10/mla_generation_module", module_decodes())
    return kernels


@pytest.fixture
def alone(kernels):
    kernels("mla/vllm/1.0.10/context_mla", latent_prompts())
    kernels("mla/vllm/1.0.10/generation_mla", latent_decodes())
    kernels("mla_bmm/vllm/1.0.10/mla_bmm", carried())
    return kernels


def tables_at(model):
    (tables,) = read_costs("silicon:vllm").measured(model, H100).rows.values()
    return tables


def milliseconds(model, **step) -> float:
    return 1e3 * step_seconds(model, H100, roofline=read_costs("silicon:vllm"), **step)


def dense_ms(model, tokens) -> float:
    """Of all layers but for attention."""
    return 1e3 * dict(tables_at(model).dense)[tokens]


def shared_ms(tokens, hidden, rank) -> float:
    down = product_ms(tokens, LATENTS + rank, hidden)
    inward = product_ms(tokens, QUERIES, rank) if rank else product_ms(tokens, QUERIES, hidden)
    return down + inward + product_ms(tokens, hidden, BACK)


def test_kernels_alone_are_added_to_the_products_around_them(alone, latent, tiny):
    """Decodes carry queries to the latents and back; prompts make keys and values."""
    heads = dense_ms(tiny, 64) - 2 * (product_ms(64, 512, 256) + product_ms(64, 256, 256))
    logits = product_ms(64, 1024, 256)
    decodes = heads + logits + 2 * (shared_ms(64, 256, 0) + carried_ms(64) + latent_decode_ms(64, 1024))
    assert milliseconds(latent, decode_contexts=[1024] * 64) == pytest.approx(decodes, rel=1e-6)
    heads = dense_ms(tiny, 1024) - 2 * (product_ms(1024, 512, 256) + product_ms(1024, 256, 256))
    made = product_ms(1024, UP, 512)
    prompt = (
        heads + product_ms(1, 1024, 256) + 2 * (shared_ms(1024, 256, 0) + made + latent_prompt_ms(1024, 1024**2 / 2))
    )
    assert milliseconds(latent, prompts=[(0, 1024)]) == pytest.approx(prompt, rel=2e-3)


def test_a_module_counts_once_and_its_products_are_shared(modules, tiny):
    """The module of the tables is DeepSeek-V3's; alone on a step it takes what was measured of it."""
    model = tiny.replaced(**LATENT, kv_heads=HEADS, hidden=DEEPSEEK.hidden, q_lora_rank=DEEPSEEK.q_lora_rank)
    tables = tables_at(model)
    line = {line.size: line for line in tables.decodes}[64]
    assert 1e3 * (line.base_s + line.each_s * 1024) == pytest.approx(2 * (FEW + latent_decode_ms(64, 1024)))
    chunk = {line.size: line for line in tables.prompts}[1024]
    made = product_ms(1024, UP, 512)
    assert 1e3 * (chunk.base_s + chunk.each_s * 512) == pytest.approx(
        2 * (FEW + made + latent_prompt_ms(1024, 1024**2 / 2)), rel=2e-3
    )


def test_products_of_another_width_take_the_place_of_those_in_the_module(modules, latent, tiny):
    expected = shared_ms(64, 256, 0) + FEW + latent_decode_ms(64, 1024)
    heads = dense_ms(tiny, 64) - 2 * (product_ms(64, 512, 256) + product_ms(64, 256, 256))
    step = milliseconds(latent, decode_contexts=[1024] * 64)
    assert step == pytest.approx(heads + product_ms(64, 1024, 256) + 2 * expected)


def test_a_chunk_makes_the_keys_and_values_of_what_is_before_it_again(alone, latent):
    first, later = (milliseconds(latent, prompts=[(start, 64)]) for start in (0, 960))
    pair = latent_prompt_ms(1024, 1024**2 / 2) * 64 * (1024 - 32) / (1024**2 / 2)
    more = pair - latent_prompt_ms(64, 64**2 / 2) + product_ms(1024, UP, 512) - product_ms(64, UP, 512)
    assert later - first == pytest.approx(2 * more, rel=0.05)


def test_no_kernel_reads_latents_faster_than_the_memory(alone, latent):
    alone("mla/vllm/1.0.10/generation_mla", [row | {"latency": 1e-9} for row in latent_decodes()])
    line = {line.size: line for line in tables_at(latent).decodes}[64]
    read_s = 64 * 4096 * latent.kv_bytes_per_token / H100.bandwidth
    assert line.base_s + line.each_s * 4096 >= 0.99 * read_s


def test_eight_bit_weights_are_of_blocks(modules, latent):
    eight = latent.replaced(weight_dtype="fp8")
    with pytest.raises(SpecError, match=r"weight_dtype.*'fp8_block' is not accepted; accepted with these tables: bf16"):
        read_costs("silicon:vllm").record(eight, H100)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kv_lora_rank": 256}, "kv_lora_rank.*256.*accepted with silicon: 512"),
        ({"v_head_dim": 64}, "v_head_dim.*64.*accepted with silicon: 128"),
        ({"kv_dtype": "fp8"}, r"kv_dtype.*accepted with latent attention of vllm 1\.0\.10 on h100_sxm: bf16, fp16"),
        ({"heads": 8, "kv_heads": 8}, "heads of a device.*8.*accepted with latent attention: 4"),
    ],
)
@pytest.mark.parametrize("form", ["modules", "alone"])
def test_other_latents_are_one_line(request, form, latent, changes, said):
    request.getfixturevalue(form)
    model = latent.replaced(**changes)
    assert not read_costs("silicon:vllm").knows(model, H100, 1)
    with pytest.raises(SpecError, match=said):
        read_costs("silicon:vllm").record(model, H100)


def test_an_engine_without_a_table_of_it_is_one_line(kernels, latent):
    with pytest.raises(SpecError, match=r"kv_lora_rank.*512.*it has no mla table"):
        read_costs("silicon:vllm").record(latent, H100)
