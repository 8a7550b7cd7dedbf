"""Tiny GGUF files, written as llama.cpp's converter writes them."""

from pathlib import Path
from typing import Any

import gguf
import torch
from tokenizers import pre_tokenizers

from twofold.engine.gguf_file import INNER, OUTER

MERGES = ["h e", "l l", "he ll", "hell o", "Ġ hello", "1 2", "12 3"]
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
TOKENS = [*BYTES, *(pair.replace(" ", "") for pair in MERGES), "<|start|>", "<|end|>"]
START, END = len(TOKENS) - 2, len(TOKENS) - 1
NORMAL, CONTROL = 1, 3


def permuted(value: torch.Tensor, heads: int) -> torch.Tensor:
    """The rows of a llama's query or key as GGUF orders them."""
    return value.reshape(heads, 2, value.shape[0] // heads // 2, *value.shape[1:]).swapaxes(1, 2).reshape(value.shape)


def written(path: Path, model: Any, *, pre: str = "gpt-2", kind: Any = None, bos: bool = False, **fields: Any) -> Path:
    """The file of a transformers model; ``kind`` quantises its matrices. ``fields`` replace metadata."""
    config = model.config
    family = "llama" if config.model_type == "mistral" else config.model_type
    writer = gguf.GGUFWriter(path, family)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    if getattr(config, "head_dim", None):
        writer.add_key_length(config.head_dim)
    writer.add_tokenizer_model(fields.pop("tokenizer", "gpt2"))
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(TOKENS)
    writer.add_token_types([NORMAL] * START + [CONTROL] * 2)
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(START)
    writer.add_eos_token_id(END)
    writer.add_add_bos_token(bos)
    writer.add_chat_template("{{ messages[0].content }}")
    for name, value in fields.items():
        writer.add_string(name.replace("__", "."), value)
    _add_tensors(writer, model, family, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_tensors(writer: Any, model: Any, family: str, kind: Any) -> None:
    outer = {theirs: ours for ours, theirs in OUTER.items()}
    inner = {theirs: ours for ours, theirs in INNER.items()}
    heads = {"attn_q": model.config.num_attention_heads, "attn_k": model.config.num_key_value_heads}
    for name, value in model.state_dict().items():
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        ours = outer.get(name)
        if ours is None:
            layer, _, part = name.removeprefix("model.layers.").partition(".")
            part, _, end = part.rpartition(".")
            if family == "llama" and inner[part] in heads:
                value = permuted(value, heads[inner[part]])
            ours = f"blk.{layer}.{inner[part]}.{end}"
        array = value.numpy()
        if kind is None or array.ndim == 1:
            writer.add_tensor(ours, array)
        else:
            writer.add_tensor(ours, gguf.quants.quantize(array, kind), raw_dtype=kind)
