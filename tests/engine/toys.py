"""Small tokenizers of both families, made here."""

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

WORDS = ["Ġt", "he", "Ġthe", "ll", "Hell", "Ã©"]
MERGES = [("Ġ", "t"), ("h", "e"), ("Ġt", "he"), ("l", "l"), ("e", "ll"), ("H", "ell"), ("Ã", "©")]


def byte_level() -> Tokenizer:
    """Byte-level BPE: 256 bytes, a few merges, two special tokens and added ones that are text."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {piece: index for index, piece in enumerate([*letters, "ell", *WORDS])}
    backend = Tokenizer(models.BPE(vocab, MERGES))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<s>", "</s>", "[TOOL_CALLS]"])
    backend.add_tokens(["<tool_call>", AddedToken("  ", normalized=False), "日本"])
    start = backend.token_to_id("<s>")
    backend.post_processor = processors.TemplateProcessing("<s> $A", None, [("<s>", start)])
    return backend


def sentencepiece() -> Tokenizer:
    """BPE in the manner of Llama 2: U+2581 for a space, one before every text, unknown characters as bytes."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *"▁abcdef", "▁a", "bc"]
    vocab = {piece: index for index, piece in enumerate(pieces)}
    backend = Tokenizer(models.BPE(vocab, [("▁", "a"), ("b", "c")], unk_token="<unk>", byte_fallback=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    backend.decoder = decoders.Sequence(steps)
    backend.add_special_tokens(["<unk>", "<s>", "</s>"])
    return backend
