"""Texts of exact token length, made of words that the server itself has counted as one token each.

Every prompt is an opening word and random words. The server's own count (``usage.prompt_tokens``) of the opening word
is the length of all that goes before: template, marks of the beginning, the word. Words that do not add exactly one
token are left out.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twofold.errors import SpecError
from twofold.spec.workload import Workload

Count = Callable[[str], Awaitable[int]]
Keys = NDArray[np.uint64]
OPENING = "Words:"
FEWEST_WORDS = 16


class Vocabulary(NamedTuple):
    """Words of one token each, and the tokens (``lead``) of a prompt that is only the opening word."""

    lead: int
    words: tuple[str, ...]


def everyday_words() -> tuple[str, ...]:
    """Everyday English, most of whose words most tokenizers hold as one token when a space goes before."""
    return tuple(files("twofold.clients").joinpath("words.txt").read_text(encoding="utf-8").split())


async def vocabulary_of(count: Count, candidates: Sequence[str] | None = None) -> Vocabulary:
    """Find by the server's ``count`` of a text which words are one token each; SpecError when hardly any is."""
    lead = await count(OPENING)
    words = await _single(count, lead, everyday_words() if candidates is None else tuple(candidates))
    if len(words) < FEWEST_WORDS:
        raise SpecError("URL", f"{len(words)} words of one token", "a tokenizer that holds common English words whole")
    return Vocabulary(lead, words)


async def _single(count: Count, lead: int, words: tuple[str, ...]) -> tuple[str, ...]:
    """Those of ``words`` that add one token: a half without any other is found by one question."""
    if not words or await count(" ".join((OPENING, *words))) == lead + len(words):
        return words
    half = len(words) // 2
    return (*await _single(count, lead, words[:half]), *await _single(count, lead, words[half:])) if half else ()


def texts(workload: Workload, vocabulary: Vocabulary, salt: int) -> Iterator[str]:
    """The prompt of each request: its token count, and the pieces of its text that it shares with others.

    Prompts that share pieces begin with the same words; all others differ from the start. Another ``salt`` gives other
    words throughout, which no cache of an earlier run knows. A prompt shorter than the lead is the opening word.
    """
    words = np.array(vocabulary.words, dtype=object)
    for request, tokens in enumerate(workload.prompt_tokens.tolist()):
        places = np.arange(vocabulary.lead, max(tokens, vocabulary.lead), dtype=np.uint64)
        mixed = _mix(_mix(_keys(workload, request, len(places), vocabulary.lead) ^ np.uint64(salt)) + places)
        yield " ".join((OPENING, *words[(mixed % np.uint64(len(words))).astype(np.int64)]))


def _keys(workload: Workload, request: int, size: int, lead: int) -> Keys:
    """What the words from token ``lead`` on depend on: the id of their piece, or else the request."""
    own = np.uint64(2**63 + request)
    keys: Keys = np.full(lead + size, own, np.uint64)
    if workload.hash_tokens:
        ids = workload.hash_ids[workload.hash_start[request] : workload.hash_start[request + 1]]
        shared = np.repeat(ids.astype(np.uint64), workload.hash_tokens)[: len(keys)]
        keys[: len(shared)] = shared
    return keys[lead:]


def _mix(keys: Keys) -> Keys:
    """SplitMix64 (Steele, Lea and Flood, 2014): one well mixed word for each."""
    keys = keys + np.uint64(0x9E3779B97F4A7C15)
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))
