"""Lecture 7, section 3.4 and exercise 5: how much KV a hand-over moves."""

from collections.abc import Iterator

from twofold.figures.row import Comparison, number
from twofold.plan.queueing import kv_bytes_per_second
from twofold.spec import catalog


def kv_size() -> Iterator[Comparison]:
    """KV of a 512-token request of OPT-66B, and the bandwidth that ten a second take."""
    per_token = catalog.model("opt-66b").kv_bytes_per_token
    request = 512 * per_token
    yield number("gb", "KV of a 512-token request, OPT-66B", 1.21, request / 1e9, "GB")
    yield number("gib", "the same in GiB", 1.12, request / 2**30, "GiB")
    bits = 8 * kv_bytes_per_second(10, 512, per_token)
    yield number("bandwidth", "bandwidth at 10 req/s", 97, bits / 1e9, "Gb/s", 0)


def exercise_5() -> Iterator[Comparison]:
    """KV moved a second by Llama-3-70B at 20 req/s of 2000 tokens, and with 8 times the KV heads."""
    model = catalog.model("llama-3-70b")
    rate = kv_bytes_per_second(20, 2000, model.kv_bytes_per_token)
    yield number("token", "KV of one token", 320, model.kv_bytes_per_token / 1024, "KiB", 0)
    yield number("a", "KV moved at 20 req/s of 2000 tokens", 13.1, rate / 1e9, "GB/s", 1)
    yield number("b", "of a 400 Gb/s port with 40 GB/s effective", 33, 100 * rate / 40e9, "%", 0)
    heads = model.heads // model.kv_heads
    yield number("c", "the same with multi-head attention", 105, heads * rate / 1e9, "GB/s", 0)
