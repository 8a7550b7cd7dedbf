"""The forward pass of a dense decoder: Llama, Mistral, Qwen2 and Qwen3.

A step runs as ``embed``, then ``layers`` in one or several slices, then ``logits`` of the rows that are wanted.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding

from twofold.engine.architecture import Architecture
from twofold.engine.attending import Attending, attention_of
from twofold.engine.batch import Batch
from twofold.engine.graphs import Graphs
from twofold.engine.linear import Linear
from twofold.engine.narrow import Narrow
from twofold.engine.pointwise import gated, normed, turned
from twofold.engine.pool import Pool

GRAPHED = "cuda"
"""The type of devices on which steps of decodes can be captured."""


class Layer(NamedTuple):
    """The weights of one layer. ``qkv`` and ``gate_up`` are matrices that share their input, stacked."""

    attention_norm: Tensor
    qkv: Linear
    query_norm: Tensor | None
    key_norm: Tensor | None
    output: Linear
    ffn_norm: Tensor
    gate_up: Linear
    down: Linear


class Decoder:
    """A model ready to run. It keeps no state between calls, and its callers choose threads and inference mode.

    ``config`` holds the sizes. Hidden states are [tokens, hidden] in the dtype of the embedding.
    """

    def __init__(
        self, architecture: Architecture, embedded: Tensor, stack: list[Layer], last_norm: Tensor, head: Linear
    ) -> None:
        self.config = architecture.model
        self._architecture, self._embedded, self._stack = architecture, embedded, stack
        self._last_norm, self._head = last_norm, head
        self._narrow = self._narrowed()
        self._graphs = self._graphed()

    @property
    def dtype(self) -> object:
        """The dtype of hidden states, which the pool must have as well."""
        return self._embedded.dtype

    def embed(self, tokens: Tensor) -> Tensor:
        """Hidden states of int64 tokens [tokens]."""
        return embedding(tokens, self._embedded)

    def layers(self, hidden: Tensor, batch: Batch, pool: Pool, first: int = 0, last: int | None = None) -> Tensor:
        """Run layers ``first`` up to ``last`` (without it; None: all that follow), writing their KV into the pool."""
        last = self.config.layers if last is None else last
        if self._graphs is not None and self._graphs.takes(batch, pool, first, last):
            return self._graphs.layers(hidden, batch, pool)
        turn = self._architecture.rope.angles(batch.positions)
        if self._narrow is not None and self._narrow.takes(batch, pool):
            return self._narrow.layers(hidden, batch, pool, turn, first, last)
        attention = attention_of(batch, pool, self.config.heads, self._architecture.windows)
        return self._each(hidden, attention, turn, first, last)

    def prepare(self, pool: Pool, most: int) -> None:
        """Make ready for steps of up to ``most`` decodes on the CUDA stream that is current; nothing on a CPU."""
        if self._graphs is not None:
            self._graphs.prepare(self._embedded[:1], pool, most)

    def forget(self) -> None:
        """Drop what was made ready, before the streams are gone."""
        if self._graphs is not None:
            self._graphs.forget()

    def _each(self, hidden: Tensor, attention: Attending, turn: tuple[Tensor, Tensor], first: int, last: int) -> Tensor:
        for index in range(first, last):
            layer = self._stack[index]
            mixed = self._attention(layer, self._normed(hidden, layer.attention_norm), index, attention, turn)
            hidden = layer.output(mixed, hidden)
            hidden = layer.down(gated(layer.gate_up(self._normed(hidden, layer.ffn_norm))), hidden)
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """Float32 logits [rows, vocabulary] of hidden states after the last layer."""
        return self._head(self._normed(hidden, self._last_norm)).float()

    def _narrowed(self) -> Narrow | None:
        """What runs steps of few tokens, where the layers allow it."""
        model = self.config
        return Narrow.made(
            [(layer.qkv, layer.output, layer.gate_up, layer.down) for layer in self._stack],
            [(layer.attention_norm, layer.ffn_norm) for layer in self._stack],
            [
                (layer.query_norm, layer.key_norm)
                for layer in self._stack
                if layer.query_norm is not None and layer.key_norm is not None
            ],
            self._architecture.windows,
            self._architecture.epsilon,
            (model.heads, model.kv_heads, model.head_dim, model.ffn),
        )

    def _graphed(self) -> Graphs | None:
        """What runs steps of decodes as CUDA graphs, where the weights are on such a device."""
        if self._embedded.device.type != GRAPHED:
            return None
        model, angles = self.config, self._architecture.rope.angles

        def through(hidden: Tensor, positions: Tensor, attention: Attending) -> Tensor:
            return self._each(hidden, attention, angles(positions), 0, model.layers)

        return Graphs(through, model.layers, model.heads, self._architecture.windows)

    def _normed(self, hidden: Tensor, weight: Tensor) -> Tensor:
        return normed(hidden, weight, self._architecture.epsilon)

    def _attention(
        self, layer: Layer, hidden: Tensor, index: int, attention: Attending, turn: tuple[Tensor, Tensor]
    ) -> Tensor:
        model = self.config
        heads = layer.qkv(hidden).view(len(hidden), -1, model.head_dim)
        paired, value = heads.tensor_split((model.heads + model.kv_heads,), 1)
        if layer.query_norm is not None and layer.key_norm is not None:
            query, key = paired.tensor_split((model.heads,), 1)
            paired = torch.cat((self._normed(query, layer.query_norm), self._normed(key, layer.key_norm)), 1)
        query, key = turned(paired, *turn).tensor_split((model.heads,), 1)
        attention.keep(key, value, index)
        return attention(query, index, (key, value)).flatten(1)
