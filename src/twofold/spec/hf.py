"""A model from the ``config.json`` of a Hugging Face checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twofold.errors import SpecError
from twofold.spec.hf_dtypes import dtypes
from twofold.spec.model import Model

Config = dict[str, Any]
Fields = dict[str, Any]

REQUIRED = object()


def is_config(mapping: Config) -> bool:
    """Whether a mapping is the content of a ``config.json`` rather than the fields of a Model."""
    return bool({"model_type", "hidden_size", "text_config"} & set(mapping))


def model_from_config(given: str | Path | Config, name: str | None = None) -> Model:
    """The model that a ``config.json`` describes: its content, its file or the folder that holds it.

    Known model types: those of ``READERS``; others are read as dense llama-like ones where they have the same
    fields. Weights are in the dtype of ``quantization_config`` or else of ``torch_dtype`` (bf16 where neither
    is given); KV is in ``torch_dtype``, since a serving engine chooses its dtype and a checkpoint does not.
    SpecError for what is missing or not known.
    """
    config, found = (given, None) if isinstance(given, dict) else _read(Path(given))
    config = {**config, **config.get("text_config", {})}
    kind = str(config.get("model_type", "llama"))
    fields = READERS.get(kind, _unknown)(config)
    fields.update(dtypes(config))
    label = name or found or str(config.get("_name_or_path") or kind)
    manner = "" if kind in READERS else ", read as a llama-like one"
    return Model(**{"name": label, "source": f"config.json, model_type {kind}{manner}", **fields})


def _read(path: Path) -> tuple[Config, str]:
    file = path / "config.json" if path.is_dir() else path
    if not file.is_file():
        raise SpecError("model", str(path), "accepted: a folder with a config.json, or the file")
    try:
        config = json.loads(file.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise SpecError("model", str(file), f"accepted: a JSON file ({error})") from None
    if not isinstance(config, dict):
        raise SpecError("model", str(file), "accepted: a JSON object")
    return config, file.resolve().parent.name


def _get(config: Config, *names: str, default: Any = REQUIRED) -> Any:
    """The first of these fields that is there and not null."""
    for field in names:
        if config.get(field) is not None:
            return config[field]
    if default is REQUIRED:
        kind = config.get("model_type", "(none)")
        raise SpecError(f"config.json {names[0]}", None, f"model_type {kind} needs this field")
    return default


def _count(config: Config, *names: str) -> int:
    value = _get(config, *names)
    if not isinstance(value, int) or value < 1:
        raise SpecError(f"config.json {names[0]}", value, "accepted: a whole number, 1 or more")
    return value


def _shape(config: Config) -> Fields:
    hidden = _count(config, "hidden_size", "n_embed")
    heads = _count(config, "num_attention_heads", "n_head")
    return {
        "layers": _get(config, "num_hidden_layers", "n_layer"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": _get(config, "num_key_value_heads", default=heads),
        "head_dim": _get(config, "head_dim", default=hidden // heads),
        "vocab": _get(config, "vocab_size"),
        "tied_embeddings": _get(config, "tie_word_embeddings", default=False),
        "max_context": _get(config, "max_position_embeddings", "seq_length", default=2048),
    }


def _llama(config: Config) -> Fields:
    bias = _get(config, "attention_bias", default=False)
    return {
        **_shape(config),
        "ffn": _get(config, "intermediate_size"),
        "qkv_bias": bias,
        "output_bias": bias,
        "ffn_bias": _get(config, "mlp_bias", default=False),
        **_window(config, lambda layers: 0),
    }


def _window(config: Config, otherwise: Callable[[int], int]) -> Fields:
    """Sliding-window layers: as ``layer_types`` lists them, or ``otherwise`` by the number of layers."""
    layers = _get(config, "num_hidden_layers")
    kinds = _get(config, "layer_types", default=None)
    sliding = otherwise(layers) if kinds is None else list(kinds).count("sliding_attention")
    if not sliding:
        return {}
    return {"sliding_window": _get(config, "sliding_window"), "sliding_layers": sliding}


def _mistral(config: Config) -> Fields:
    windowed = config.get("sliding_window") is not None
    return {**_llama(config), **_window(config, lambda layers: layers * windowed)}


def _qwen2(config: Config) -> Fields:
    used = _get(config, "use_sliding_window", default=False)
    first = _get(config, "max_window_layers", default=0)
    window = _window(config, lambda layers: max(0, layers - first) if used else 0)
    return {**_llama(config), "qkv_bias": True, "output_bias": False, **window}


def _qwen3(config: Config) -> Fields:
    bias = _get(config, "attention_bias", default=False)
    return {**_qwen2(config), "qkv_bias": bias, "output_bias": bias, "qk_norm": True}


def _qwen3_moe(config: Config) -> Fields:
    if _get(config, "decoder_sparse_step", default=1) != 1 or _get(config, "mlp_only_layers", default=[]):
        raise SpecError("config.json decoder_sparse_step", config.get("decoder_sparse_step"), "accepted: 1")
    moe = {"experts": _get(config, "num_experts"), "moe_ffn": _get(config, "moe_intermediate_size")}
    return {**_qwen3(config), **moe, "experts_per_token": _get(config, "num_experts_per_tok")}


def _mixtral(config: Config) -> Fields:
    width = _get(config, "intermediate_size")
    moe = {"experts": _get(config, "num_local_experts"), "moe_ffn": width}
    return {**_mistral(config), **moe, "experts_per_token": _get(config, "num_experts_per_tok")}


def _gpt_oss(config: Config) -> Fields:
    return {
        **_mixtral({"attention_bias": True, **config}),
        "ffn_bias": True,
        "router_bias": True,
        "attention_sinks": True,
        **_window(config, lambda layers: (layers + 1) // 2),
    }


def _deepseek(config: Config) -> Fields:
    if _get(config, "moe_layer_freq", default=1) != 1:
        raise SpecError("config.json moe_layer_freq", config["moe_layer_freq"], "accepted: 1")
    nope, rope = _get(config, "qk_nope_head_dim"), _get(config, "qk_rope_head_dim")
    return {
        **_llama(config),
        "head_dim": nope + rope,
        "qk_nope_head_dim": nope,
        "qk_rope_head_dim": rope,
        "v_head_dim": _get(config, "v_head_dim"),
        "kv_lora_rank": _get(config, "kv_lora_rank"),
        "q_lora_rank": _get(config, "q_lora_rank", default=0),
        "experts": _get(config, "n_routed_experts"),
        "experts_per_token": _get(config, "num_experts_per_tok"),
        "shared_experts": _get(config, "n_shared_experts", default=0),
        "moe_ffn": _get(config, "moe_intermediate_size"),
        "dense_layers": _get(config, "first_k_dense_replace", default=0),
        "router_bias": config.get("model_type") == "deepseek_v3",
    }


def _gemma(config: Config) -> Fields:
    return _llama({"tie_word_embeddings": True, **config})


def _gemma2(config: Config) -> Fields:
    return {**_gemma(config), "norms_per_layer": 4, **_window(config, lambda layers: (layers + 1) // 2)}


def _gemma3(config: Config) -> Fields:
    period = _get(config, "sliding_window_pattern", default=6)
    window = _window(config, lambda layers: layers - layers // period)
    return {**_gemma(config), "norms_per_layer": 4, "qk_norm": True, **window}


def _opt(config: Config) -> Fields:
    if _get(config, "word_embed_proj_dim", default=config.get("hidden_size")) != config.get("hidden_size"):
        accepted = "accepted: the same as hidden_size"
        raise SpecError("config.json word_embed_proj_dim", config["word_embed_proj_dim"], accepted)
    bias = _get(config, "enable_bias", default=True)
    return {
        **_shape({"tie_word_embeddings": True, **config}),
        "ffn": _get(config, "ffn_dim"),
        "gated_ffn": False,
        **dict.fromkeys(("qkv_bias", "output_bias", "ffn_bias", "norm_bias"), bias),
        "position_embeddings": _get(config, "max_position_embeddings") + 2,
    }


def _bloom(config: Config) -> Fields:
    shape = _shape({"tie_word_embeddings": True, **config})
    biases = dict.fromkeys(("qkv_bias", "output_bias", "ffn_bias", "norm_bias", "embedding_norm"), True)
    return {**shape, "ffn": 4 * shape["hidden"], "gated_ffn": False, **biases}


def _falcon(config: Config) -> Fields:
    shape = _shape(config)
    grouped = _get(config, "new_decoder_architecture", default=False)
    parallel = _get(config, "parallel_attn", default=True)
    one = 1 if _get(config, "multi_query", default=True) else shape["heads"]
    norms = _get(config, "num_ln_in_parallel_attn", default=2) if grouped else 2 - parallel
    return {
        **shape,
        "kv_heads": _get(config, "num_kv_heads", "n_head_kv", default=shape["heads"]) if grouped else one,
        "ffn": _get(config, "ffn_hidden_size", default=4 * shape["hidden"]),
        "gated_ffn": False,
        "norm_bias": True,
        "norms_per_layer": norms,
        **dict.fromkeys(("qkv_bias", "output_bias", "ffn_bias"), _get(config, "bias", default=False)),
    }


def _unknown(config: Config) -> Fields:
    special = [field for field in config if "expert" in field or field == "kv_lora_rank"]
    if special:
        accepted = f"with {special[0]}, accepted: {', '.join(READERS)}; or give the model's fields inline"
        raise SpecError("config.json model_type", config.get("model_type"), accepted)
    return _llama(config)


READERS: dict[str, Callable[[Config], Fields]] = {
    "llama": _llama,
    "mistral": _mistral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "mixtral": _mixtral,
    "gpt_oss": _gpt_oss,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "opt": _opt,
    "bloom": _bloom,
    "falcon": _falcon,
}
"""How each model type is read."""
