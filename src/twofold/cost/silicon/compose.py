"""From kernels to the tables of one replica: which of them its layers run, and how often."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from twofold.cost.contract import Reach
from twofold.cost.grids import Sample, straight
from twofold.cost.measured import Points, Tables
from twofold.cost.silicon.attention import Heads, read_decodes, read_prompts
from twofold.cost.silicon.exchange import all_reduce
from twofold.cost.silicon.experts import routed
from twofold.cost.silicon.kernels import Kernels
from twofold.cost.silicon.products import Products, read_products
from twofold.errors import SpecError
from twofold.spec.model import Model, dtype_bytes

Floats = NDArray[np.float64]
ACTIVATION_BYTES = 2.0
SMALL_KERNEL_S = 3e-6
"""What a kernel takes that reads next to nothing; the package's descriptions of systems have it too."""
REDUCES = 2
"""All-reduces a layer: after attention and after the feed-forward part."""
HEAD_DTYPE = "bf16"
"""The output matrix and the router are not quantized."""


@lru_cache(maxsize=256)
def tables_of(kernels: Kernels, model: Model, tp: int, bandwidth: float, efficiency: float) -> Tables:
    """The tables of a replica of ``tp`` devices, with no seconds of the host. SpecError for what was not measured.

    Kernels that only read and write reach an ``efficiency`` of ``bandwidth``, bytes a second: no table has them. What
    was measured to read faster than that bandwidth, from a cache that a served model does not fit, is slowed to it.
    """
    if model.kv_lora_rank:
        raise SpecError("kv_lora_rank", model.kv_lora_rank, "accepted with silicon: 0, no latent attention")
    if model.heads % tp:
        raise SpecError("tp", tp, f"accepted for {model.name}: a divisor of its {model.heads} attention heads")
    return _Replica(kernels, model, tp, bandwidth, efficiency).tables()


@dataclass(frozen=True)
class _Replica:
    """One device of it. Seconds are float64 over ``places``, tokens of a step, unless said otherwise."""

    kernels: Kernels
    model: Model
    tp: int
    bandwidth: float
    efficiency: float

    def tables(self) -> Tables:
        places, seconds = self.places, self.dense()

        def rest(tokens: float) -> float:
            return float(np.interp(tokens, places, seconds))

        prompts, decodes = self.prompts(), self.decodes()
        batches = straight(decodes, rest)
        return Tables(
            dense=_points(places, seconds),
            prompts=straight(prompts, rest),
            decodes=batches,
            rows=_points(places, self.product(self.model.vocab / self.tp, self.model.hidden, HEAD_DTYPE)),
            reach=Reach(float(places[-1]), batches[-1].size, max(sample.keys for sample in decodes)),
        )

    @cached_property
    def places(self) -> Floats:
        return self._products(self.model.weight_dtype).tokens

    @property
    def heads(self) -> Heads:
        model = self.model
        return Heads(model.heads // self.tp, max(1, model.kv_heads // self.tp), model.head_dim, model.kv_dtype)

    def dense(self) -> Floats:
        """All layers but for attention itself."""
        model = self.model
        every = (
            self.projections() + self.small() + REDUCES * all_reduce(self.kernels, self.tp, self.places, model.hidden)
        )
        seconds = model.layers * every
        if model.layers > model.moe_layers:
            seconds += (model.layers - model.moe_layers) * self.feed_forward(model.ffn)
        if model.moe_layers:
            seconds += model.moe_layers * self.experts()
        return seconds

    def projections(self) -> Floats:
        """To queries, keys and values, and back."""
        queries, keys = (count * self.heads.width for count in self.heads[:2])
        return self.product(queries + 2 * keys, self.model.hidden) + self.product(self.model.hidden, queries)

    def feed_forward(self, ffn: int) -> Floats:
        width = ffn / self.tp
        inward = (2.0 if self.model.gated_ffn else 1.0) * width
        return self.product(inward, self.model.hidden) + self.product(self.model.hidden, width)

    def experts(self) -> Floats:
        """The router, the routed experts, and those that all tokens share."""
        model = self.model
        seconds = routed(self.kernels, model, self.tp, self.places)
        seconds += self.product(model.experts, model.hidden, HEAD_DTYPE)
        if model.shared_experts:
            seconds += self.feed_forward(model.shared_experts * model.moe_ffn)
        return seconds

    def small(self) -> Floats:
        """Norms with their residuals, each two reads and two writes, and the activation between the products."""
        model = self.model
        width = (model.ffn or model.moe_ffn * model.experts_per_token) / self.tp
        numbers = model.norms_per_layer * 4.0 * model.hidden + (3.0 if model.gated_ffn else 2.0) * width
        reading = self.places * numbers * ACTIVATION_BYTES / (self.bandwidth * self.efficiency)
        return np.asarray((model.norms_per_layer + 1) * SMALL_KERNEL_S + reading)

    def product(self, outputs: float, inputs: float, dtype: str | None = None) -> Floats:
        products = self._products(dtype or self.model.weight_dtype)
        seconds = np.interp(self.places, products.tokens, products.seconds(outputs, inputs))
        return np.maximum(seconds, outputs * inputs * dtype_bytes(dtype or self.model.weight_dtype) / self.bandwidth)

    def _products(self, dtype: str) -> Products:
        return read_products(self.kernels.file("gemm", "gemm"), dtype)

    def prompts(self) -> list[Sample]:
        """Attention of all layers."""
        return self._all_layers(read_prompts(self.kernels.file("attention", "context_attention"), self.heads), 0.0)

    def decodes(self) -> list[Sample]:
        """Attention of all layers."""
        token = 2 * self.heads.keys * self.heads.width * dtype_bytes(self.model.kv_dtype)
        samples = read_decodes(self.kernels.file("attention", "generation_attention"), self.heads)
        return self._all_layers(samples, token / self.bandwidth)

    def _all_layers(self, samples: list[Sample], token_s: float) -> list[Sample]:
        """Each at least ``token_s`` a layer and key."""
        layers = self.model.layers
        return [Sample(size, keys, layers * max(s, token_s * size * keys)) for size, keys, s in samples]


def _points(places: Floats, seconds: Floats) -> Points:
    return tuple(zip(places.tolist(), seconds.tolist(), strict=True))
