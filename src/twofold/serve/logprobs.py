"""Log probabilities as OpenAI writes them, for chat and for completions."""

from typing import Any

from twofold.serve.protocol import Logprob
from twofold.serve.texts import Texts

LEAST = -9999.0
"""What stands for a probability of zero, which JSON cannot write as a logarithm."""


def chat_logprobs(texts: Texts, tokens: list[int], logprobs: list[Logprob]) -> dict[str, Any]:
    """The ``logprobs`` of a chat choice."""
    content = [
        _entry(texts, token, known["chosen"]) | {"top_logprobs": [_entry(texts, *each) for each in known["top"]]}
        for token, known in zip(tokens, logprobs, strict=True)
    ]
    return {"content": content, "refusal": None}


def _entry(texts: Texts, token: int, logprob: float) -> dict[str, Any]:
    data = texts.piece(token)
    return {"token": data.decode(errors="replace"), "logprob": max(logprob, LEAST), "bytes": list(data)}


def completion_logprobs(texts: Texts, tokens: list[int], logprobs: list[Logprob], offset: int) -> dict[str, Any]:
    """The ``logprobs`` of a completion choice whose text goes on at character ``offset``."""
    names = [_name(texts, token) for token in tokens]
    offsets = []
    for name in names:
        offsets.append(offset)
        offset += len(name)
    return {
        "tokens": names,
        "token_logprobs": [max(known["chosen"], LEAST) for known in logprobs],
        "top_logprobs": [_by_name(texts, known) for known in logprobs],
        "text_offset": offsets,
    }


def _by_name(texts: Texts, known: Logprob) -> dict[str, float]:
    likeliest: dict[str, float] = {}
    for token, logprob in known["top"]:
        likeliest.setdefault(_name(texts, token), max(logprob, LEAST))
    return likeliest


def _name(texts: Texts, token: int) -> str:
    return texts.piece(token).decode(errors="replace")


def joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The log probabilities of a whole choice from those of its pieces."""
    whole = dict(parts[0])
    for part in parts[1:]:
        for name, value in part.items():
            if isinstance(value, list):
                whole[name] = whole[name] + value
    return whole
