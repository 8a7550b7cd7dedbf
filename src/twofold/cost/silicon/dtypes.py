"""Dtypes of weights, ours and those of the tables."""

from twofold.spec.model import Model, dtype_bytes

BLOCKS = "fp8_block"
"""8-bit floats with a scale for each block of 128 x 128 weights, as DeepSeek publishes them; fp8 has one a tensor."""
HEAD = "bf16"
"""The output matrix and the router are not quantized."""
KV_DTYPES = {"bf16": "bfloat16", "fp16": "bfloat16", "fp8": "fp8"}
"""Our dtypes by the tables' names of them, here and below; fp16 computes as fast as bf16."""
PRODUCTS = {
    "bf16": "bfloat16",
    "fp16": "bfloat16",
    "fp8": "fp8",
    BLOCKS: BLOCKS,
    "fp4": "nvfp4",
    "int8": "int8_wo",
    "int4": "int4_wo",
}
EXPERTS = {
    "bf16": ("bfloat16",),
    "fp16": ("bfloat16",),
    "fp8": ("fp8", BLOCKS),
    BLOCKS: (BLOCKS,),
    "fp4": ("nvfp4",),
    "mxfp4": ("w4a16_mxfp4", "w4a8_mxfp4_mxfp8"),
    "int4": ("int4_wo",),
}
"""The first of them that was measured."""


def weights(model: Model, blocks: bool) -> str:
    """The dtype of the dense layers: 8-bit floats are ``BLOCKS`` where asked for, with latent attention always."""
    return _scaled(model.weight_dtype, blocks or model.kv_lora_rank > 0)


def experts(model: Model, blocks: bool) -> str:
    """The same of routed experts."""
    return _scaled(model.expert_dtype or model.weight_dtype, blocks or model.kv_lora_rank > 0)


def width(dtype: str) -> float:
    """Bytes of one weight."""
    return dtype_bytes("fp8" if dtype == BLOCKS else dtype)


def _scaled(dtype: str, blocks: bool) -> str:
    return BLOCKS if blocks and dtype == "fp8" else dtype
