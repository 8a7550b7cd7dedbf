"""A real, very small llama-like decoder in NumPy, on which chunked prefill is checked by running it.

Random weights, float64: RMSNorm, rotary positions, grouped-query causal attention over a KV cache, SwiGLU.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Tokens = NDArray[np.int64]


@dataclass(frozen=True)
class Shape:
    """Sizes of the decoder; ``heads`` is a multiple of ``kv_heads``, ``head_dim`` is even."""

    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    ffn: int = 128
    vocab: int = 256

    @property
    def hidden(self) -> int:
        """Width of the residual stream."""
        return self.heads * self.head_dim


@dataclass
class KvCache:
    """Keys and values by layer, [tokens, kv_heads, head_dim]; ``read`` counts the KV tokens read."""

    keys: list[Array] = field(default_factory=list)
    values: list[Array] = field(default_factory=list)
    length: int = 0
    read: int = 0


class TinyLlm:
    """The decoder. ``forward`` extends a cache by some tokens and returns the logits after the last one."""

    def __init__(self, seed: int = 0, shape: Shape | None = None) -> None:
        self.shape = shape or Shape()
        self._rng = np.random.Generator(np.random.PCG64(seed))
        hidden, kv = self.shape.hidden, self.shape.kv_heads * self.shape.head_dim
        self.embedding = self._rng.standard_normal((self.shape.vocab, hidden))
        self.head = self._matrix(hidden, self.shape.vocab)
        self.layers = [
            {
                "q": self._matrix(hidden, hidden),
                "k": self._matrix(hidden, kv),
                "v": self._matrix(hidden, kv),
                "o": self._matrix(hidden, hidden),
                "gate": self._matrix(hidden, self.shape.ffn),
                "up": self._matrix(hidden, self.shape.ffn),
                "down": self._matrix(self.shape.ffn, hidden),
            }
            for _ in range(self.shape.layers)
        ]

    def _matrix(self, rows: int, columns: int) -> Array:
        matrix: Array = self._rng.standard_normal((rows, columns)) / np.sqrt(rows)
        return matrix

    def new_cache(self) -> KvCache:
        """An empty cache."""
        empty = np.empty((0, self.shape.kv_heads, self.shape.head_dim))
        return KvCache([empty] * self.shape.layers, [empty] * self.shape.layers)

    def forward(self, tokens: Tokens, cache: KvCache) -> Array:
        """Run ``tokens`` [n] after those in ``cache``, which grows by n; logits [vocab] of the last."""
        positions = cache.length + np.arange(len(tokens))
        hidden = self.embedding[tokens]
        for index, weights in enumerate(self.layers):
            hidden = hidden + self._attention(index, weights, _normed(hidden), positions, cache)
            normed = _normed(hidden)
            hidden = hidden + (_silu(normed @ weights["gate"]) * (normed @ weights["up"])) @ weights["down"]
        cache.length += len(tokens)
        cache.read += cache.length
        logits: Array = _normed(hidden[-1]) @ self.head
        return logits

    def _attention(self, index: int, weights: dict[str, Array], x: Array, positions: Tokens, cache: KvCache) -> Array:
        size = self.shape.head_dim
        queries = _rotated((x @ weights["q"]).reshape(len(x), -1, size), positions)
        new_keys = _rotated((x @ weights["k"]).reshape(len(x), -1, size), positions)
        new_values = (x @ weights["v"]).reshape(len(x), -1, size)
        keys = cache.keys[index] = np.concatenate([cache.keys[index], new_keys])
        values = cache.values[index] = np.concatenate([cache.values[index], new_values])
        group = self.shape.heads // self.shape.kv_heads
        scores = np.einsum("qhd,khd->hqk", queries, np.repeat(keys, group, axis=1)) / np.sqrt(size)
        scores[:, np.arange(len(keys)) > positions[:, None]] = -np.inf
        mixed = np.einsum("hqk,khd->qhd", _softmax(scores), np.repeat(values, group, axis=1))
        out: Array = mixed.reshape(len(x), -1) @ weights["o"]
        return out


@dataclass(frozen=True)
class Generation:
    """Tokens written greedily, the logits after the prompt, and the KV tokens that its prefill read."""

    tokens: list[int]
    prompt_logits: Array
    prefill_read: int


def generate(model: TinyLlm, prompt: Tokens, chunks: list[int], new_tokens: int) -> Generation:
    """Prefill ``prompt`` in pieces of the lengths ``chunks``, which add up to it, then decode greedily."""
    cache = model.new_cache()
    logits = np.empty(0)
    for piece in np.split(prompt, np.cumsum(chunks)[:-1]):
        logits = model.forward(piece, cache)
    prompt_logits, read = logits, cache.read
    tokens: list[int] = []
    for _ in range(new_tokens):
        tokens.append(int(np.argmax(logits)))
        logits = model.forward(np.array(tokens[-1:]), cache)
    return Generation(tokens, prompt_logits, read)


def _normed(x: Array) -> Array:
    normed: Array = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6)
    return normed


def _silu(x: Array) -> Array:
    gated: Array = x / (1.0 + np.exp(-x))
    return gated


def _softmax(scores: Array) -> Array:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    normalised: Array = weights / weights.sum(axis=-1, keepdims=True)
    return normalised


def _rotated(x: Array, positions: Tokens) -> Array:
    half = x.shape[-1] // 2
    angles = positions[:, None] / 10000.0 ** (np.arange(half) / half)
    cosine, sine = np.cos(angles)[:, None], np.sin(angles)[:, None]
    first, second = x[..., :half], x[..., half:]
    return np.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)
