"""From kernels to the tables of one replica: which of them its layers run, and how often."""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twofold.cost.contract import Reach
from twofold.cost.grids import Sample, straight
from twofold.cost.measured import Points, Tables
from twofold.cost.silicon import dtypes
from twofold.cost.silicon.attention import Heads, read_decodes, read_prompts
from twofold.cost.silicon.dispatch import LOW_LATENCY_TOKENS, all_to_all
from twofold.cost.silicon.exchange import all_reduce
from twofold.cost.silicon.experts import Spread, exchanged, routed
from twofold.cost.silicon.kernels import Kernels
from twofold.cost.silicon.latent import Latent
from twofold.cost.silicon.products import Multiply, read_products
from twofold.errors import SpecError
from twofold.spec.model import Model, dtype_bytes

Floats = NDArray[np.float64]
ACTIVATION_BYTES = 2.0
SMALL_KERNEL_S = 3e-6
"""What a kernel takes that reads next to nothing; the package's descriptions of systems have it too."""
REDUCES = 2
"""All-reduces a layer: after attention and after the feed-forward part."""


class Ways(NamedTuple):
    """How a replica of ``tp`` devices runs a model.

    ``spread``: experts whole, each on one device; ``blocks``: 8-bit weights with a scale a block; ``deepep``: tokens go
    to the devices of their experts and back, where otherwise each device has all tokens.
    """

    tp: int = 1
    spread: bool = False
    blocks: bool = False
    deepep: bool = False


@lru_cache(maxsize=256)
def tables_of(kernels: Kernels, model: Model, ways: Ways, bandwidth: float, efficiency: float) -> Tables:
    """The tables of a replica, with no seconds of the host. SpecError for what was not measured.

    Kernels that only read and write reach an ``efficiency`` of ``bandwidth``, bytes a second: no table has them. What
    was measured to read faster than that bandwidth, from a cache that a served model does not fit, is slowed to it.
    """
    if model.heads % ways.tp:
        raise SpecError("tp", ways.tp, f"accepted for {model.name}: a divisor of its {model.heads} attention heads")
    if ways.spread and not model.experts:
        raise SpecError("ep", True, f"accepted only for a mixture-of-experts model, which {model.name} is not")
    return _Replica(kernels, model, ways, bandwidth, efficiency).tables()


@dataclass(frozen=True)
class _Replica:
    """One device of it. Seconds are float64 over ``places``, tokens of a step, unless said otherwise."""

    kernels: Kernels
    model: Model
    ways: Ways
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
            rows=_points(places, self.multiply(self.model.vocab / self.ways.tp, self.model.hidden, dtypes.HEAD)),
            reach=Reach(float(places[-1]), batches[-1].size, max(sample.keys for sample in decodes)),
        )

    @cached_property
    def multiply(self) -> Multiply:
        file, dtype = self.kernels.file("gemm", "gemm"), dtypes.weights(self.model, self.ways.blocks)
        return Multiply(file, dtype, self.bandwidth, read_products(file, dtype).tokens)

    @property
    def places(self) -> Floats:
        return self.multiply.tokens

    @property
    def heads(self) -> Heads:
        model, tp = self.model, self.ways.tp
        return Heads(model.heads // tp, max(1, model.kv_heads // tp), model.head_dim, model.kv_dtype)

    @cached_property
    def latent(self) -> Latent | None:
        if not self.model.kv_lora_rank:
            return None
        return Latent(self.kernels, self.model, self.heads.queries, self.multiply)

    def dense(self) -> Floats:
        """All layers but for attention itself."""
        model, reduce = self.model, all_reduce(self.kernels, self.ways.tp, self.places, self.model.hidden)
        seconds = model.layers * (self.projections() + self.small() + REDUCES * reduce)
        if model.layers > model.moe_layers:
            seconds += (model.layers - model.moe_layers) * self.feed_forward(model.ffn)
        if model.moe_layers and self.ways.spread and self.ways.deepep and self.ways.tp > 1:
            seconds += model.moe_layers * (self.visited_experts() - reduce)
        elif model.moe_layers:
            seconds += model.moe_layers * self.experts()
        return seconds

    def projections(self) -> Floats:
        """To queries, keys and values, and back."""
        if self.latent is not None:
            return self.latent.projections()
        queries, keys = (count * self.heads.width for count in self.heads[:2])
        return self.multiply(queries + 2 * keys, self.model.hidden) + self.multiply(self.model.hidden, queries)

    def feed_forward(self, ffn: int) -> Floats:
        return self._feed_forward(ffn / self.ways.tp, self.multiply)

    def _feed_forward(self, width: float, multiply: Multiply) -> Floats:
        inward = (2.0 if self.model.gated_ffn else 1.0) * width
        return multiply(inward, self.model.hidden) + multiply(self.model.hidden, width)

    @property
    def spread(self) -> Spread:
        tp, dtype = self.ways.tp, dtypes.experts(self.model, self.ways.blocks)
        return Spread(dtype, 1, tp) if self.ways.spread else Spread(dtype, tp, 1)

    def experts(self) -> Floats:
        """The router, the routed experts, and those that all tokens share."""
        model = self.model
        seconds = routed(self.kernels, model, self.spread, self.places)
        seconds += self.multiply(model.experts, model.hidden, dtypes.HEAD)
        if model.shared_experts:
            seconds += self.feed_forward(model.shared_experts * model.moe_ffn)
        return seconds

    def visited_experts(self) -> Floats:
        """The same where each device routes its share of the tokens, and has the shared experts whole."""
        model, own = self.model, self.places / self.ways.tp
        local = replace(self.multiply, tokens=own)
        seconds = all_to_all(self.kernels, model, self.ways.tp, own)
        seconds += exchanged(self.kernels, model, self.spread, self.places, own <= LOW_LATENCY_TOKENS)
        seconds += local(model.experts, model.hidden, dtypes.HEAD)
        if model.shared_experts:
            seconds += self._feed_forward(float(model.shared_experts * model.moe_ffn), local)
        return seconds

    def small(self) -> Floats:
        """Norms with their residuals, each two reads and two writes, and the activation between the products."""
        model = self.model
        width = (model.ffn or model.moe_ffn * model.experts_per_token) / self.ways.tp
        numbers = model.norms_per_layer * 4.0 * model.hidden + (3.0 if model.gated_ffn else 2.0) * width
        reading = self.places * numbers * ACTIVATION_BYTES / (self.bandwidth * self.efficiency)
        return np.asarray((model.norms_per_layer + 1) * SMALL_KERNEL_S + reading)

    def prompts(self) -> list[Sample]:
        """Attention of all layers."""
        if self.latent is not None:
            return self._all_layers(self.latent.prompts(), 0.0)
        return self._all_layers(read_prompts(self.kernels.file("attention", "context_attention"), self.heads), 0.0)

    def decodes(self) -> list[Sample]:
        """Attention of all layers."""
        if self.latent is not None:
            numbers = self.model.kv_lora_rank + self.model.qk_rope_head_dim
            samples = self.latent.decodes()
        else:
            numbers = 2 * self.heads.keys * self.heads.width
            samples = read_decodes(self.kernels.file("attention", "generation_attention"), self.heads)
        return self._all_layers(samples, numbers * dtype_bytes(self.model.kv_dtype) / self.bandwidth)

    def _all_layers(self, samples: list[Sample], token_s: float) -> list[Sample]:
        """Each at least ``token_s`` a layer and key."""
        layers = self.model.layers
        return [Sample(size, keys, layers * max(s, token_s * size * keys)) for size, keys, s in samples]


def _points(places: Floats, seconds: Floats) -> Points:
    return tuple(zip(places.tolist(), seconds.tolist(), strict=True))
