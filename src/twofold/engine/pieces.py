"""The bytes that each token stands for.

Text is a matter of bytes: a character may be spread over tokens. Two families of tokenizers are understood: byte-level
BPE (GPT-2, Llama 3, Qwen, SmolLM2), where a token is bytes in the disguise of printable characters, and SentencePiece
with byte fallback (Llama 2, Mistral, Gemma), where a token is text with U+2581 for a space, or one byte as ``<0xNN>``.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from tokenizers import Tokenizer as Backend

from twofold.errors import SpecError

SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
ONE_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
ACCEPTED = "accepted: byte-level BPE, or SentencePiece with byte fallback"


class Pieces:
    """The tokens of ``backend`` as bytes; ``SpecError`` if it is of neither family.

    ``spaced``: the tokenizer puts a space before a text, so that decoding a text takes one off its start.
    """

    def __init__(self, backend: Backend) -> None:
        steps = list(_steps(json.loads(backend.to_str())["decoder"]))
        kinds = {step["type"] for step in steps}
        self._backend = backend
        self._byte_level = "ByteLevel" in kinds
        accepted = {"ByteLevel", "Fuse"} if self._byte_level else {"Replace", "ByteFallback", "Fuse", "Strip"}
        if not kinds <= accepted or not kinds & {"ByteLevel", "ByteFallback"} or not all(map(_known, steps)):
            raise SpecError("decoder", ", ".join(sorted(kinds)) or None, ACCEPTED)
        self.spaced = "Strip" in kinds
        self._known: dict[int, bytes] = {}

    def __getitem__(self, token: int) -> bytes:
        """The bytes of ``token``; ``SpecError`` if there is no such token."""
        piece = self._known.get(token)
        if piece is None:
            name = self._backend.id_to_token(token) if token >= 0 else None
            if name is None:
                raise SpecError("token", token, "accepted: an id of the vocabulary")
            piece = self._known[token] = _bytes_of_disguise(name) if self._byte_level else _bytes_of_text(name)
        return piece


def _steps(decoder: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    if decoder is None:
        return
    if decoder["type"] == "Sequence":
        for each in decoder["decoders"]:
            yield from _steps(each)
    else:
        yield decoder


def _known(step: dict[str, Any]) -> bool:
    if step["type"] == "Replace":
        return step["pattern"] == {"String": SPACE} and bool(step["content"] == " ")
    return step["type"] != "Strip" or (step["content"], step["start"], step["stop"]) == (" ", 1, 0)


def _bytes_of_text(name: str) -> bytes:
    byte = ONE_BYTE.fullmatch(name)
    return bytes([int(byte[1], 16)]) if byte else name.replace(SPACE, " ").encode()


def _bytes_of_disguise(name: str) -> bytes:
    try:
        return bytes(DISGUISES[letter] for letter in name)
    except KeyError:
        return name.encode()


def _disguises() -> dict[str, int]:
    """Printable Latin-1 characters stand for themselves, the other bytes, in order, for U+0100 and on (GPT-2)."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + index): byte for index, byte in enumerate(hidden)}


DISGUISES = _disguises()
