"""What a ``config.json`` says about the arithmetic of a model, beyond its sizes."""

from __future__ import annotations

from typing import Any, NamedTuple

from twofold.engine.rope import Rope, rope_of
from twofold.errors import SpecError
from twofold.spec.hf import model_from_config
from twofold.spec.model import Model

Config = dict[str, Any]

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
"""The model types that the engine computes."""


class Architecture(NamedTuple):
    """Sizes, rotary embedding, the epsilon of norms, and the sliding window of each layer (tokens, 0 for none)."""

    model: Model
    rope: Rope
    epsilon: float
    windows: tuple[int, ...]


def architecture_of(config: Config, name: str) -> Architecture:
    """Read one from the content of a ``config.json``; SpecError for what the engine does not compute."""
    family = config.get("model_type")
    if family not in FAMILIES:
        raise SpecError("config.json model_type", family, f"the engine runs: {', '.join(FAMILIES)}")
    if config.get("quantization_config"):
        method = config["quantization_config"].get("quant_method")
        raise SpecError("config.json quantization_config", method, "accepted: weights in fp32, bf16 or fp16")
    activation = config.get("hidden_act", "silu")
    if activation != "silu":
        raise SpecError("config.json hidden_act", activation, "accepted: silu")
    model = model_from_config(config, name)
    rope = rope_of(config, model.head_dim)
    return Architecture(model, rope, float(config.get("rms_norm_eps", 1e-6)), _windows(config, model))


def _windows(config: Config, model: Model) -> tuple[int, ...]:
    """Windowed layers: as ``layer_types`` says, else all of Mistral's and the last ones of Qwen's."""
    kinds = config.get("layer_types")
    if not model.sliding_layers:
        return (0,) * model.layers
    if kinds is None:
        first = model.layers - model.sliding_layers
        kinds = ["sliding_attention" if layer >= first else "full_attention" for layer in range(model.layers)]
    return tuple(model.sliding_window if kind == "sliding_attention" else 0 for kind in kinds)
