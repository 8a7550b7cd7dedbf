"""Attention of decodes: bytes of KV read a CPU-second by the compiled kernel and by torch over gathered pages.

Both are set against a copy of memory by torch (bytes read and written), as in STREAM (McCalpin 1995).
"""

import argparse
import itertools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.measure import print_table, timed, verdict
from twofold.engine.attention import Attention
from twofold.engine.batch import Batch
from twofold.engine.pool import Pool, torch_dtype
from twofold.spec.model import Model

SHAPES = {"SmolLM2-135M": (9, 3, 64), "Llama-3-8B": (32, 8, 128)}
BATCHES = ((1, 4096), (16, 1024), (64, 200))
POOL_BYTES = 200e6
GOAL = 3.0
HEADER = ("model, dtype, decodes x context", "kernel GB/s", "gathered GB/s", "of a copy", "x gathered", "goal x")


def fastest_s(call: Callable[[], object], runs: int) -> float:
    """Least CPU-seconds of a call, after one that compiles and warms."""
    call()
    return timed(call, runs).best_s


def copy_gb_s(runs: int) -> float:
    """Gigabytes read and written a second by a copy of 128 MiB."""
    source, target = torch.ones(1 << 25), torch.zeros(1 << 25)
    return 2 * source.nbytes / fastest_s(lambda: target.copy_(source), runs) / 1e9


def case(heads: int, kv_heads: int, width: int, dtype: str, decodes: int, context: int) -> tuple[Pool, Batch, Tensor]:
    """Some layers that do not fit in a cache, each decode with its own blocks in random order, and queries."""
    blocks = decodes * -(-context // 16)
    layer_bytes = 2 * blocks * 16 * kv_heads * width * torch_dtype(dtype).itemsize
    layers = max(1, round(POOL_BYTES / layer_bytes))
    sizes = {"layers": layers, "hidden": heads * width, "ffn": 1, "vocab": 1}
    model = Model(name="case", heads=heads, kv_heads=kv_heads, head_dim=width, **sizes)
    pool = Pool.sized(model, dtype, blocks=blocks)
    pool.keys.normal_()
    pool.values.normal_()
    tables, nothing = torch.randperm(blocks).reshape(decodes, -1), torch.zeros(0, dtype=torch.int64)
    contexts, starts = torch.full((decodes,), context), torch.arange(decodes + 1)
    batch = Batch(nothing, nothing, nothing, starts, contexts, tables, nothing, decodes)
    return pool, batch, torch.randn(decodes, heads, width).to(torch_dtype(dtype))


def gathered(pool: Pool, batch: Batch, query: Tensor, layer: int) -> Tensor:
    """The same by torch, for contexts that are all equal."""
    length = int(batch.contexts[0])
    sides = [side[layer][batch.tables].flatten(1, 2)[:, :length].transpose(1, 2) for side in (pool.keys, pool.values)]
    return scaled_dot_product_attention(query.unsqueeze(2), *sides, enable_gqa=True)[:, :, 0]


def measured(shape: tuple[int, int, int], dtype: str, decodes: int, context: int, runs: int) -> tuple[float, float]:
    """Gigabytes of KV read a CPU-second, by the kernel and by torch."""
    pool, batch, query = case(*shape, dtype, decodes, context)
    layers = range(len(pool.keys))
    attention = Attention(batch, pool, shape[0], (0,) * len(layers))
    read = 2 * len(layers) * decodes * context * shape[1] * shape[2] * query.itemsize / 1e9
    ours = fastest_s(lambda: [attention(query, layer) for layer in layers], runs)
    return read / ours, read / fastest_s(lambda: [gathered(pool, batch, query, layer) for layer in layers], runs)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one row a case, all on one thread."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attention", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="the best of so many counts")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    copied, rows = copy_gb_s(options.runs), []
    for (name, shape), dtype, batch in itertools.product(SHAPES.items(), ("fp32", "bf16"), BATCHES):
        ours, theirs = measured(shape, dtype, *batch, options.runs)
        reached = verdict(ours / theirs >= GOAL)
        title = f"{name}, {dtype}, {batch[0]} x {batch[1]}"
        shown = (f"{ours:.1f}", f"{theirs:.1f}", f"{ours / copied:.2f}", f"{ours / theirs:.1f}")
        rows.append([title, *shown, f"{GOAL} {reached}"])
    print(f"copy: {copied:.1f} GB a CPU-second\n")
    print_table(HEADER, rows)


if __name__ == "__main__":
    main()
