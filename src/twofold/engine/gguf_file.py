"""A GGUF file read as a Hugging Face checkpoint: its config, and its tensors under their usual names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf.quants import dequantize
from numpy.typing import NDArray
from torch import Tensor

from twofold.errors import SpecError

FAMILIES = ("llama", "qwen2", "qwen3")
"""The architectures, as GGUF names them (a Mistral model is a llama), that can be read."""

OUTER = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
INNER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
ROPE_DIVISORS = "rope_freqs.weight"
Kind = gguf.GGMLQuantizationType


class GgufFile:
    """One open file. SpecError where it is broken or of an architecture that cannot be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._reader = gguf.GGUFReader(path)
        except (ValueError, OSError, IndexError) as error:
            raise SpecError("model", str(path), f"accepted: a GGUF file ({error})") from None
        self.family = self.field("general.architecture")
        if self.family not in FAMILIES:
            raise SpecError("GGUF general.architecture", self.family, f"accepted: {', '.join(FAMILIES)}")
        self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}

    def field(self, name: str, default: Any = None) -> Any:
        """A metadata value, the default where there is none."""
        found = self._reader.get_field(name)
        return default if found is None else found.contents()

    def config(self) -> dict[str, Any]:
        """The content of a ``config.json`` that says the same."""
        heads, hidden = self._size("attention.head_count"), self._size("embedding_length")
        return {
            "model_type": self.family,
            "num_hidden_layers": self._size("block_count"),
            "hidden_size": hidden,
            "intermediate_size": self._size("feed_forward_length"),
            "num_attention_heads": heads,
            "num_key_value_heads": self._own("attention.head_count_kv", heads),
            "head_dim": self._own("attention.key_length", hidden // heads),
            "rms_norm_eps": self._own("attention.layer_norm_rms_epsilon", 1e-6),
            "max_position_embeddings": self._size("context_length"),
            "vocab_size": int(self._tensors["token_embd.weight"].shape[1]),
            "tie_word_embeddings": "output.weight" not in self._tensors,
            "torch_dtype": "float32",
            "bos_token_id": self.field("tokenizer.ggml.bos_token_id"),
            "eos_token_id": self.field("tokenizer.ggml.eos_token_id"),
            "rope_parameters": self._rope(),
            **self._window(),
        }

    def tensors(self) -> Iterator[tuple[str, Tensor, float]]:
        """Name and value of each tensor, and the share of the file that is read with it."""
        read, total = 0, sum(int(tensor.n_bytes) for tensor in self._reader.tensors)
        for tensor in self._reader.tensors:
            read += int(tensor.n_bytes)
            if tensor.name != ROPE_DIVISORS:
                yield self._name(tensor.name), self._value(tensor), read / total

    def _own(self, name: str, default: Any = None) -> Any:
        return self.field(f"{self.family}.{name}", default)

    def _size(self, name: str) -> int:
        found = self._own(name)
        if not isinstance(found, int):
            raise SpecError(f"GGUF {self.family}.{name}", found, "this field is required, one number for all layers")
        return found

    def _rope(self) -> dict[str, Any]:
        rope: dict[str, Any] = {"rope_theta": float(self._own("rope.freq_base", 10000.0)), "rope_type": "default"}
        kind = self._own("rope.scaling.type", "none")
        if ROPE_DIVISORS in self._tensors:
            divisors = np.asarray(self._tensors[ROPE_DIVISORS].data, np.float32).tolist()
            return {**rope, "rope_type": "longrope", "short_factor": divisors, "long_factor": divisors}
        if kind not in ("none", "linear", "yarn"):
            raise SpecError("GGUF rope.scaling.type", kind, "accepted: none, linear, yarn")
        if kind != "none":
            rope |= {"rope_type": kind, "factor": float(self._own("rope.scaling.factor", 1.0))}
            original = self._own("rope.scaling.original_context_length")
            rope |= {} if original is None else {"original_max_position_embeddings": original}
        return rope

    def _window(self) -> dict[str, Any]:
        window = self._own("attention.sliding_window")
        layers = self._size("block_count")
        return {} if not window else {"sliding_window": window, "layer_types": ["sliding_attention"] * layers}

    def _name(self, name: str) -> str:
        if name in OUTER:
            return OUTER[name]
        _, layer, part, kind = [*name.split("."), "", "", ""][:4]
        if part not in INNER or not layer.isdigit():
            raise SpecError("GGUF tensor", name, "the engine does not know this tensor")
        return f"model.layers.{layer}.{INNER[part]}.{kind}"

    def _value(self, tensor: Any) -> Tensor:
        shape = tuple(int(size) for size in reversed(tensor.shape))
        value = _numbers(tensor).reshape(shape)
        part = tensor.name.split(".")[2] if tensor.name.startswith("blk.") else ""
        if self.family == "llama" and part in ("attn_q", "attn_k"):
            value = unpermuted(value, self._size("attention.head_count") if part == "attn_q" else self._kv_heads())
        return value.contiguous()

    def _kv_heads(self) -> int:
        return int(self._own("attention.head_count_kv", self._size("attention.head_count")))


def unpermuted(value: Tensor, heads: int) -> Tensor:
    """Undo GGUF's order of a llama's query and key rows: it pairs neighbours, the engine pairs the halves of a head."""
    return value.reshape(heads, -1, 2, *value.shape[1:]).transpose(1, 2).reshape(value.shape)


def _numbers(tensor: Any) -> Tensor:
    """The numbers of a tensor: 16-bit ones as they are, all others in float32."""
    kind, data = tensor.tensor_type, tensor.data
    if kind == Kind.F16:
        return torch.from_numpy(np.array(data))
    if kind == Kind.BF16:
        return torch.from_numpy(np.array(data).view(np.uint16)).view(torch.bfloat16)
    try:
        exact: NDArray[np.float32] = dequantize(data, kind)
    except NotImplementedError:
        raise SpecError(f"GGUF tensor {tensor.name}", kind.name, "this quantisation cannot be read") from None
    return torch.from_numpy(np.array(exact, np.float32))
