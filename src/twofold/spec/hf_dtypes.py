"""The dtypes of a Hugging Face checkpoint: ``torch_dtype`` and the many forms of ``quantization_config``."""

from __future__ import annotations

from typing import Any

from twofold.errors import SpecError

Config = dict[str, Any]

TORCH_DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "float8_e4m3fn": "fp8"}
METHODS = {"fp8": "fp8", "fbgemm_fp8": "fp8", "mxfp4": "mxfp4"}
ALGORITHMS = {"FP8": "fp8", "NVFP4": "fp4"}
BITS = {4: "int4", 8: "int8"}
GROUPS = {("float", 8): "fp8", ("float", 4): "fp4", ("int", 8): "int8", ("int", 4): "int4"}


def dtypes(config: Config) -> dict[str, str]:
    """The dtype fields of a Model: of weights, of KV, and of experts where they have their own.

    SpecError for a ``torch_dtype`` or a quantization that is not known.
    """
    given = config.get("torch_dtype") or config.get("dtype") or "bfloat16"
    plain = TORCH_DTYPES.get(str(given).removeprefix("torch."))
    if plain is None:
        raise SpecError("config.json torch_dtype", given, f"accepted: {', '.join(TORCH_DTYPES)}")
    kv = "bf16" if plain == "fp8" else plain
    quantized = _quantized(config.get("quantization_config") or {})
    if quantized == "mxfp4":
        return {"weight_dtype": plain, "expert_dtype": "mxfp4", "kv_dtype": kv}
    return {"weight_dtype": quantized or plain, "kv_dtype": kv}


def _quantized(config: Config) -> str | None:
    """The weight dtype of a ``quantization_config``; None where there is none."""
    if not config:
        return None
    method = str(config.get("quant_method", "")).lower()
    found = (
        METHODS.get(method)
        or ALGORITHMS.get(str(config.get("quant_algo")))
        or _loaded(config)
        or BITS.get(config.get("bits", 0))
        or _grouped(config)
    )
    if found is None:
        accepted = "accepted: fp8, mxfp4, nvfp4; gptq, awq, bitsandbytes, compressed-tensors of 4 or 8 bits"
        raise SpecError("config.json quantization_config", method, accepted)
    return found


def _loaded(config: Config) -> str | None:
    """What bitsandbytes turns the weights into as it loads them."""
    if config.get("load_in_4bit"):
        return "int4"
    return "int8" if config.get("load_in_8bit") else None


def _grouped(config: Config) -> str | None:
    """The weight dtype of the first group of a compressed-tensors configuration."""
    groups = list(config.get("config_groups", {}).values())
    weights = groups[0].get("weights", {}) if groups else {}
    return GROUPS.get((str(weights.get("type")), weights.get("num_bits", 0)))
