"""A language model as numbers: its shape, and the parameters, bytes and FLOPs that follow from it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from twofold.errors import SpecError
from twofold.spec.checked import Checked

LARGEST = 1 << 31
Positive = Annotated[int, Field(ge=1, le=LARGEST)]
Count = Annotated[int, Field(ge=0, le=LARGEST)]
Dtype = Literal["fp32", "bf16", "fp16", "fp8", "int8", "fp4", "mxfp4", "int4"]

DTYPE_BYTES: dict[str, float] = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "fp4": 0.5 + 1 / 16,
    "mxfp4": 0.5 + 1 / 32,
    "int4": 0.5 + 2.5 / 128,
}
"""Bytes of one number. The 4-bit formats include their scales: fp4 (NVFP4) one byte for 16 numbers, mxfp4 one
byte for 32 (OCP Microscaling v1.0), int4 (GPTQ, AWQ) a 16-bit scale and a 4-bit zero point for 128."""


def dtype_bytes(name: str) -> float:
    """Bytes of one number of this dtype, scales of 4-bit formats included; SpecError for an unknown dtype."""
    if name not in DTYPE_BYTES:
        raise SpecError("dtype", name, f"accepted: {', '.join(DTYPE_BYTES)}")
    return DTYPE_BYTES[name]


class Model(Checked):
    """A decoder-only transformer, in the terms of a Hugging Face ``config.json``.

    ``ffn`` is the width of a dense feed-forward layer, ``moe_ffn`` of one expert. ``kv_lora_rank`` above 0
    means multi-head latent attention (MLA), ``q_lora_rank`` 0 a full query projection. ``experts`` above 0
    means a mixture of experts in all but the first ``dense_layers`` layers. ``position_embeddings`` counts
    learned rows, if any. ``norm_bias`` is a LayerNorm with a bias, otherwise a norm has one weight a channel.
    ``sliding_layers`` layers see only the last ``sliding_window`` tokens. ``expert_dtype``, of the routed
    experts, None is ``weight_dtype``. ``max_context`` is in tokens.
    """

    name: str
    source: str = "given by the user"
    layers: Positive
    hidden: Positive
    heads: Positive
    kv_heads: Positive
    head_dim: Positive
    ffn: Count = 0
    vocab: Positive
    gated_ffn: bool = True
    tied_embeddings: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    ffn_bias: bool = False
    norm_bias: bool = False
    norms_per_layer: Count = 2
    qk_norm: bool = False
    embedding_norm: bool = False
    attention_sinks: bool = False
    position_embeddings: Count = 0
    kv_lora_rank: Count = 0
    q_lora_rank: Count = 0
    qk_nope_head_dim: Count = 0
    qk_rope_head_dim: Count = 0
    v_head_dim: Count = 0
    experts: Count = 0
    experts_per_token: Count = 0
    shared_experts: Count = 0
    moe_ffn: Count = 0
    dense_layers: Count = 0
    router_bias: bool = False
    sliding_window: Count = 0
    sliding_layers: Count = 0
    weight_dtype: Dtype = "bf16"
    expert_dtype: Dtype | None = None
    kv_dtype: Dtype = "bf16"
    max_context: Positive = 131072

    @model_validator(mode="after")
    def _agree(self) -> Model:
        if self.heads % self.kv_heads:
            raise SpecError("kv_heads", self.kv_heads, f"accepted: a divisor of heads = {self.heads}")
        if self.kv_lora_rank and not (self.qk_nope_head_dim and self.qk_rope_head_dim and self.v_head_dim):
            accepted = "latent attention also needs qk_nope_head_dim, qk_rope_head_dim and v_head_dim"
            raise SpecError("kv_lora_rank", self.kv_lora_rank, accepted)
        if self.experts and not 1 <= self.experts_per_token <= self.experts:
            accepted = f"accepted: 1 to experts = {self.experts}"
            raise SpecError("experts_per_token", self.experts_per_token, accepted)
        if self.experts and not self.moe_ffn:
            raise SpecError("moe_ffn", self.moe_ffn, "accepted: the width of an expert, 1 or more")
        if self.dense_layers > self.layers:
            raise SpecError("dense_layers", self.dense_layers, f"accepted: 0 to layers = {self.layers}")
        if not self.ffn and self.layers > self.moe_layers:
            raise SpecError("ffn", self.ffn, "accepted: the width of a dense feed-forward layer, 1 or more")
        if self.sliding_layers > self.layers or bool(self.sliding_layers) != bool(self.sliding_window):
            accepted = f"accepted: 1 to {self.layers} layers together with a sliding_window, or neither"
            raise SpecError("sliding_layers", self.sliding_layers, accepted)
        return self

    @property
    def moe_layers(self) -> int:
        """Layers whose feed-forward part is a mixture of experts."""
        return self.layers - self.dense_layers if self.experts else 0

    @property
    def embedding_params(self) -> int:
        """The input embedding, and position embeddings where they are learned."""
        return (self.vocab + self.position_embeddings) * self.hidden

    @property
    def lm_head_params(self) -> int:
        """The output matrix, also where it is tied to the embedding: it is read all the same."""
        return self.vocab * self.hidden

    @property
    def attention_params(self) -> int:
        """Attention of one layer."""
        return self._latent_attention_params if self.kv_lora_rank else self._head_attention_params

    @property
    def _head_attention_params(self) -> int:
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        matrices = self.hidden * (2 * queries + 2 * keys)
        biases = self.qkv_bias * (queries + 2 * keys) + self.output_bias * self.hidden
        return matrices + biases + self.qk_norm * 2 * self.head_dim + self.attention_sinks * self.heads

    @property
    def _latent_attention_params(self) -> int:
        width = self.heads * (self.qk_nope_head_dim + self.qk_rope_head_dim)
        query = self.q_lora_rank * (self.hidden + 1 + width) if self.q_lora_rank else self.hidden * width
        down = self.hidden * (self.kv_lora_rank + self.qk_rope_head_dim) + self.kv_lora_rank
        up = self.kv_lora_rank * self.heads * (self.qk_nope_head_dim + self.v_head_dim)
        return query + down + up + self.heads * self.v_head_dim * self.hidden

    def _ffn_params(self, width: int) -> int:
        matrices = 3 if self.gated_ffn else 2
        return matrices * self.hidden * width + self.ffn_bias * ((matrices - 1) * width + self.hidden)

    @property
    def _norm_params(self) -> int:
        return (1 + self.norm_bias) * self.hidden

    @property
    def expert_params(self) -> int:
        """One routed expert of one layer; 0 for a dense model."""
        return self._ffn_params(self.moe_ffn) if self.experts else 0

    @property
    def dense_layer_params(self) -> int:
        """All layers without the routed experts: attention, norms, feed-forward, routers, shared experts."""
        every = self.layers * (self.attention_params + self.norms_per_layer * self._norm_params)
        dense = (self.layers - self.moe_layers) * self._ffn_params(self.ffn)
        router = (self.hidden + self.router_bias) * self.experts
        return every + dense + self.moe_layers * (router + self.shared_experts * self._ffn_params(self.moe_ffn))

    @property
    def layer_params(self) -> int:
        """All layers as one token uses them: with ``experts_per_token`` routed experts."""
        return self.dense_layer_params + self.moe_layers * self.experts_per_token * self.expert_params

    @property
    def total_params(self) -> int:
        """Every parameter once, a tied output matrix not again."""
        routed = self.moe_layers * self.experts * self.expert_params
        return self.dense_layer_params + routed + self._outer_params

    @property
    def active_params(self) -> int:
        """Parameters that one token uses, embedding and output matrix included (a tied one once)."""
        return self.layer_params + self._outer_params

    @property
    def _outer_params(self) -> int:
        norms = (1 + self.embedding_norm) * self._norm_params if self.norms_per_layer else 0
        return self.embedding_params + (not self.tied_embeddings) * self.lm_head_params + norms

    @property
    def expert_bytes(self) -> float:
        """Bytes of one routed expert of one layer, in ``expert_dtype``; 0 for a dense model."""
        return self.expert_params * dtype_bytes(self.expert_dtype or self.weight_dtype)

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights: routed experts in ``expert_dtype``, the rest in ``weight_dtype``."""
        experts = self.moe_layers * self.experts
        rest = self.total_params - experts * self.expert_params
        return round(rest * dtype_bytes(self.weight_dtype) + experts * self.expert_bytes)

    @property
    def kv_bytes_per_token(self) -> int:
        """KV bytes of one token in all layers; for MLA the latent and the shared rotary key."""
        width = 2 * self.kv_heads * self.head_dim
        if self.kv_lora_rank:
            width = self.kv_lora_rank + self.qk_rope_head_dim
        return round(self.layers * width * dtype_bytes(self.kv_dtype))

    def kv_bytes(self, tokens: int) -> int:
        """KV bytes of one request with this context, where sliding-window layers keep only their window."""
        whole = (self.layers - self.sliding_layers) * tokens
        return self.kv_bytes_per_token * (whole + self.sliding_layers * self._seen(tokens)) // self.layers

    def _seen(self, tokens: int) -> int:
        return min(tokens, self.sliding_window) if self.sliding_window else tokens

    @property
    def attention_flops_per_pair(self) -> int:
        """FLOPs of one (query token, key token) pair in all layers, heads and both products.

        Sliding-window layers count like the others, which is an upper bound beyond the window. MLA counts its
        expanded form: 2 x heads x (query-key width + value width).
        """
        if self.kv_lora_rank:
            width = self.qk_nope_head_dim + self.qk_rope_head_dim + self.v_head_dim
            return 2 * self.layers * self.heads * width
        return 4 * self.layers * self.heads * self.head_dim

    def experts_touched(self, tokens: float) -> float:
        """Expected distinct routed experts of one layer that ``tokens`` tokens use, each choosing at random.

        E (1 - (1 - k/E)^tokens) for k of E experts; 0 for a dense model.
        """
        if not self.experts:
            return 0.0
        return float(self.experts * (1.0 - (1.0 - self.experts_per_token / self.experts) ** tokens))
