"""A decoder from the tensors of its checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from twofold.engine.architecture import Architecture
from twofold.engine.decoder import Decoder, Layer
from twofold.engine.linear import Linear
from twofold.engine.quantize import linear_of
from twofold.engine.weights import Weights, opened
from twofold.spec.model import Model

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
ATTENTION = ("q_proj", "k_proj", "v_proj")
FEED_FORWARD = ("gate_proj", "up_proj")


def assemble(
    architecture: Architecture,
    folder: Path,
    dtype: torch.dtype,
    device: torch.device,
    quantize: str | None,
    tell: Callable[[float], None],
) -> Decoder:
    """Read the weights in ``folder``; ``tell`` hears the share that is done. SpecError where they do not fit."""
    model = architecture.model
    with opened(folder, dtype, device) as weights:
        stack = []
        for index in range(model.layers):
            tell(index / model.layers)
            stack.append(_layer(weights, f"model.layers.{index}", model, quantize))
        embedded = weights.take(EMBEDDING, model.vocab, model.hidden)
        norm = weights.take("model.norm.weight", model.hidden).clone()
        head = embedded if model.tied_embeddings else weights.take(HEAD, model.vocab, model.hidden)
        weights.all_taken()
        placed = architecture._replace(rope=architecture.rope.on(device))
        decoder = Decoder(placed, embedded.clone(), stack, norm, linear_of(head, None, quantize))
    tell(1.0)
    return decoder


def _layer(weights: Weights, name: str, model: Model, quantize: str | None) -> Layer:
    queries, keys = model.heads * model.head_dim, model.kv_heads * model.head_dim

    def stacked(part: str, names: tuple[str, ...], outputs: tuple[int, ...], inputs: int) -> Linear:
        pairs = list(zip(names, outputs, strict=True))
        matrices = [weights.take(f"{name}.{part}.{each}.weight", size, inputs) for each, size in pairs]
        biases = [weights.maybe(f"{name}.{part}.{each}.bias", size) for each, size in pairs]
        return linear_of(torch.cat(matrices), _joined(biases), quantize)

    def norm(each: str, size: int) -> Tensor:
        return weights.take(f"{name}.{each}.weight", size).clone()

    return Layer(
        attention_norm=norm("input_layernorm", model.hidden),
        qkv=stacked("self_attn", ATTENTION, (queries, keys, keys), model.hidden),
        query_norm=norm("self_attn.q_norm", model.head_dim) if model.qk_norm else None,
        key_norm=norm("self_attn.k_norm", model.head_dim) if model.qk_norm else None,
        output=stacked("self_attn", ("o_proj",), (model.hidden,), queries),
        ffn_norm=norm("post_attention_layernorm", model.hidden),
        gate_up=stacked("mlp", FEED_FORWARD, (model.ffn, model.ffn), model.hidden),
        down=stacked("mlp", ("down_proj",), (model.hidden,), model.ffn),
    )


def _joined(biases: list[Tensor | None]) -> Tensor | None:
    given = [bias for bias in biases if bias is not None]
    return torch.cat(given) if given else None
