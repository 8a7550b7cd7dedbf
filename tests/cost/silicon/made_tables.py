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
    sizes = product((1, 64, 1024), (16, 128, 512, 2048), (64, 256, 512, 2048))
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
