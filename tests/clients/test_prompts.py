import asyncio
import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from fake_server import tokens_of
from hypothesis import given
from hypothesis import strategies as st

from twofold.clients.prompts import OPENING, Vocabulary, everyday_words, texts, vocabulary_of
from twofold.errors import SpecError
from twofold.spec.synthetic import Synthetic
from twofold.spec.workload import Workload

VOCABULARY = Vocabulary(3, tuple(f"w{number}" for number in range(300)))


def vocabulary(words: list[str] | None = None) -> tuple[Vocabulary, int]:
    asked = itertools.count()

    async def count(text: str) -> int:
        next(asked)
        return tokens_of(text)

    return asyncio.run(vocabulary_of(count, words)), next(asked)


def test_only_words_of_one_token_are_taken_and_few_questions_asked() -> None:
    short = [f"w{number}" for number in range(200)]
    found, asked = vocabulary([*short[:70], "longer1", *short[70:], "longer2"])
    assert found.words == tuple(short)
    assert found.lead == tokens_of(OPENING)
    assert asked < 40


def test_a_tokenizer_that_splits_all_words_is_refused() -> None:
    with pytest.raises(SpecError, match="holds common English words whole"):
        vocabulary(["longer1", "longer2"] * 20)


def test_everyday_words_are_different_words() -> None:
    words = everyday_words()
    assert len(words) == len(set(words)) > 400
    assert all(word.isalpha() for word in words)


@given(st.lists(st.integers(1, 400), min_size=1, max_size=8), st.integers(0, 2**63 - 1))
def test_every_text_has_exactly_its_tokens(lengths: list[int], salt: int) -> None:
    count = len(lengths)
    workload = Workload("made", np.zeros(count), np.array(lengths, np.int32), np.ones(count, np.int32))
    made = list(texts(workload, VOCABULARY, salt))
    assert [tokens_of(text) for text in made] == [max(length, VOCABULARY.lead) for length in lengths]


def test_texts_share_what_the_workload_shares_and_no_more() -> None:
    drawn = Synthetic(
        rate=10,
        requests=60,
        prompt="fixed:50",
        output="fixed:10",
        hash_tokens=16,
        shared_prefix={"pool": 2, "tokens": "fixed:64"},
        sessions={"turns": "fixed:2", "think_s": 1},
    ).workload()
    words = [["BOS", OPENING[:-1], ":", *text.split()[1:]] for text in texts(drawn, VOCABULARY, 5)]
    for one, other in itertools.combinations(range(len(drawn)), 2):
        ids = [drawn.hash_ids[drawn.hash_start[i] : drawn.hash_start[i + 1]] for i in (one, other)]
        shared = min(drawn.hash_tokens * same(*ids), *drawn.prompt_tokens[[one, other]])
        assert shared <= same(words[one], words[other]) < shared + 8


def same(one: Iterable[Any], other: Iterable[Any]) -> int:
    """How long two sequences are equal from the start."""
    return len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))))


def test_another_salt_gives_other_words() -> None:
    workload = Workload("made", np.zeros(2), np.full(2, 60, np.int32), np.ones(2, np.int32))
    first, again, other = (list(texts(workload, VOCABULARY, salt)) for salt in (1, 1, 2))
    assert first == again
    assert first[0] != first[1]
    assert all(one.split()[1:9] != two.split()[1:9] for one, two in zip(first, other, strict=True))
