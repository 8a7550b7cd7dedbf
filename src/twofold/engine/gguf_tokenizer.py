"""The tokenizer inside a GGUF file, written as the ``tokenizer.json`` that the tokenizers library reads."""

from __future__ import annotations

from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE

from twofold.engine.gguf_file import GgufFile
from twofold.errors import SpecError

CONTROL, USER_DEFINED = 3, 4
"""Kinds of tokens that are never split, as GGUF numbers them."""

WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PATTERNS = {
    "llama-bpe": WORDS.replace("DIGITS", r"\p{N}{1,3}"),
    "qwen2": WORDS.replace("DIGITS", r"\p{N}"),
}
"""How text is cut into words before merging, by the name that GGUF gives it (Llama 3, Qwen 2)."""

SINGLE_DIGITS = ("smollm",)
PLAIN = ("gpt-2",)


def tokenizer_of(file: GgufFile) -> Tokenizer:
    """The tokenizer of a file; SpecError for a kind other than byte-level BPE and for an unknown way to cut words."""
    kind, cut = file.field("tokenizer.ggml.model"), file.field("tokenizer.ggml.pre", "gpt-2")
    if kind != "gpt2":
        raise SpecError("GGUF tokenizer.ggml.model", kind, "accepted: gpt2 (byte-level BPE)")
    tokens = file.field("tokenizer.ggml.tokens")
    merges = [tuple(pair.split(" ", 1)) for pair in file.field("tokenizer.ggml.merges")]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(BPE(vocabulary, merges, ignore_merges=cut == "llama-bpe"))
    tokenizer.normalizer = normalizers.NFC() if cut == "qwen2" else None
    tokenizer.pre_tokenizer = _cutter(cut)
    tokenizer.decoder = decoders.ByteLevel()
    kinds = file.field("tokenizer.ggml.token_type", [])
    for token, its_kind in zip(tokens, kinds, strict=False):
        if its_kind in (CONTROL, USER_DEFINED):
            tokenizer.add_tokens([AddedToken(token, special=its_kind == CONTROL, normalized=False)])
    tokenizer.post_processor = _ends(file, tokens)
    return tokenizer


def tokenizer_config(file: GgufFile) -> dict[str, Any]:
    """The content of a ``tokenizer_config.json``: special tokens and the chat template."""
    tokens = file.field("tokenizer.ggml.tokens")
    named = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    numbers = {name: file.field(f"tokenizer.ggml.{field}_token_id") for name, field in named.items()}
    special = {name: tokens[number] for name, number in numbers.items() if number is not None}
    template = file.field("tokenizer.chat_template")
    added = bool(file.field("tokenizer.ggml.add_bos_token", False))
    return {**special, "add_bos_token": added, **({"chat_template": template} if template else {})}


def _cutter(name: str) -> Any:
    if name in PATTERNS:
        words = pre_tokenizers.Split(Regex(PATTERNS[name]), "isolated")
        return pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if name in PLAIN:
        return plain
    if name in SINGLE_DIGITS:
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), plain])
    raise SpecError("GGUF tokenizer.ggml.pre", name, f"accepted: {', '.join((*PATTERNS, *SINGLE_DIGITS, *PLAIN))}")


def _ends(file: GgufFile, tokens: list[str]) -> Any:
    """The bytes' own post-processor, and the first token of a text where the file wants one."""
    bytes_only = processors.ByteLevel(trim_offsets=False)
    number = file.field("tokenizer.ggml.bos_token_id")
    if number is None or not file.field("tokenizer.ggml.add_bos_token", False):
        return bytes_only
    first = processors.TemplateProcessing(
        single=f"{tokens[number]} $A", pair=f"{tokens[number]} $A $B", special_tokens=[(tokens[number], number)]
    )
    return processors.Sequence([bytes_only, first])
