"""Tables in the form of the package's, with times that follow formulas. Milliseconds."""

from itertools import product
from typing import Any


def product_ms(m: int, n: int, k: int) -> float:
    return 1e-2 + n * k * (1e-7 + 1e-9 * m)


def prompt_ms(tokens: int, pairs: float) -> float:
    return 1e-2 + 1e-4 * tokens + 1e-7 * pairs


def decode_ms(count: int, context: int) -> float:
    return 1e-2 + 1e-3 * count + 1e-6 * count * context


def products(dtype: str = "bfloat16") -> list[dict[str, Any]]:
    sizes = product((1, 64, 1024), (16, 128, 512, 2048, 8192), (64, 256, 512, 2048, 8192))
    return [{"gemm_dtype": dtype, "m": m, "n": n, "k": k, "latency": product_ms(m, n, k)} for m, n, k in sizes]


def prompts(heads: int = 4, keys: int = 2, **fields: Any) -> list[dict[str, Any]]:
    sizes = product((1, 2, 4), (64, 256, 1024))
    rows = ((n, length, prompt_ms(n * length, n * length * length / 2)) for n, length in sizes)
    return [attention(heads, keys, n, ms, **fields) | {"isl": length, "step": 0} for n, length, ms in rows]


def decodes(heads: int = 4, keys: int = 2, **fields: Any) -> list[dict[str, Any]]:
    sizes = product((1, 8, 64), (128, 1024, 4096))
    rows = ((n, context, decode_ms(n, context)) for n, context in sizes)
    return [attention(heads, keys, n, ms, **fields) | {"isl": 1, "step": context - 1} for n, context, ms in rows]


def attention(heads: int, keys: int, batch: int, latency: float, **fields: Any) -> dict[str, Any]:
    shape = {"num_heads": heads, "num_key_value_heads": keys, "head_dim": 64, "window_size": 0}
    dtypes = {"attn_dtype": "bfloat16", "kv_cache_dtype": "bfloat16"}
    return shape | dtypes | {"batch_size": batch, "latency": latency} | fields


FEW = 5e-3
"""Of small kernels in a module."""


def latent_prompt_ms(tokens: int, pairs: float) -> float:
    return 2e-2 + 1e-4 * tokens + 2e-7 * pairs


def latent_decode_ms(count: int, context: int) -> float:
    return 2e-2 + 1e-3 * count + 1e-6 * count * context


def carried_ms(tokens: int) -> float:
    return 4e-3 + 2e-5 * tokens


def latent(batch: int, length: int, step: int, latency: float, heads: int = 4) -> dict[str, Any]:
    shape = {"num_heads": heads, "mla_dtype": "bfloat16", "kv_cache_dtype": "bfloat16"}
    return shape | {"batch_size": batch, "isl": length, "step": step, "latency": latency}


def latent_prompts() -> list[dict[str, Any]]:
    sizes = product((1, 2, 4), (64, 256, 1024))
    return [latent(n, length, 0, latent_prompt_ms(n * length, n * length * length / 2)) for n, length in sizes]


def latent_decodes() -> list[dict[str, Any]]:
    sizes = product((1, 8, 64), (128, 1024, 4096))
    return [latent(n, 1, context - 1, latent_decode_ms(n, context)) for n, context in sizes]


def carried() -> list[dict[str, Any]]:
    sizes = product(("mla_gen_pre", "mla_gen_post"), (1, 64, 1024))
    shape = {"bmm_dtype": "bfloat16", "num_heads": 4}
    return [shape | {"op_name": op, "num_tokens": n, "latency": carried_ms(n) / 2} for op, n in sizes]


def module_products_ms(tokens: int, heads: int = 4) -> float:
    """Of DeepSeek-V3's projections that prompts and decodes share."""
    down, up = product_ms(tokens, 1536 + 512 + 64, 7168), product_ms(tokens, heads * (128 + 64), 1536)
    return down + up + product_ms(tokens, 7168, heads * 128)


def module_prompts() -> list[dict[str, Any]]:
    named = {"model": "deepseek-ai/DeepSeek-V3", "gemm_type": "bfloat16"}
    rows = latent_prompts()
    for row in rows:
        tokens = row["batch_size"] * row["isl"]
        row["latency"] += FEW + module_products_ms(tokens) + product_ms(tokens, 4 * (128 + 128), 512)
    return [row | named for row in rows]


def module_decodes() -> list[dict[str, Any]]:
    named = {"model": "deepseek-ai/DeepSeek-V3", "gemm_type": "bfloat16"}
    rows = latent_decodes()
    for row in rows:
        row["latency"] += FEW + module_products_ms(row["batch_size"])
    return [row | named for row in rows]


def experts(tp: int, ep: int, ms: float, **fields: Any) -> list[dict[str, Any]]:
    """16 of 256 x 128, 2 a token: ``ms`` at any number of tokens."""
    shape = {"hidden_size": 256, "inter_size": 128, "topk": 2, "num_experts": 16, "distribution": "power_law_1.2"}
    place = {"moe_tp_size": tp, "moe_ep_size": ep, "moe_dtype": "bfloat16"}
    return [shape | place | fields | {"num_tokens": tokens, "latency": ms} for tokens in (1, 1024)]


def reduces(ms: float, devices: int = 2) -> list[dict[str, Any]]:
    row = {"kernel_source": "x", "num_gpus": devices, "latency": ms}
    return [row | {"message_size": size} for size in (256, 256 * 1024)]


def exchanges(backend: str, us: float, ep: int = 2, **fields: Any) -> list[dict[str, Any]]:
    """Each way ``us`` microseconds and as many again a token of the device."""
    shape = {"hidden_size": 256, "topk": 2, "num_experts": 16, "ep_size": ep, "node_num": 1}
    kernel = {"comm_backend": backend, "comm_dtype": "default", "sms": 0} | shape | fields
    ways = product(("dispatch", "combine"), (1, 64, 512))
    return [kernel | {"phase": phase, "num_tokens": n, "latency": us * (1 + n)} for phase, n in ways]


def wide_exchanges(us: float, fast: bool) -> list[dict[str, Any]]:
    """The same in SGLang's form, both ways a row."""
    shape = {"hidden_size": 256, "num_topk": 2, "num_experts": 16, "node_num": 1}
    names = ("dispatch_avg_t_us", "combine_avg_t_us") if fast else ("dispatch_transmit_us", "combine_transmit_us")
    sms = {} if fast else {"dispatch_sms": 20, "combine_sms": 20}
    return [shape | sms | {"num_token": n} | dict.fromkeys(names, us * (1 + n)) for n in (1, 64, 512)]
