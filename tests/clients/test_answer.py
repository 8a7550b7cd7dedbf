import json
from typing import Any

import pytest

from twofold.cli.chat import account
from twofold.clients.answer import Answer
from twofold.clients.http import AnswerError


def said(*chunks: Any, at: float = 1.0, step: float = 0.5) -> Answer:
    """An answer that got a chunk every ``step`` seconds from ``at`` on."""
    answer = Answer()
    for place, chunk in enumerate(chunks):
        data = chunk if isinstance(chunk, str) else json.dumps(chunk)
        answer.body(at + step * place, f"data: {data}\n\n".encode())
    return answer


def word(text: str = "a", used: int | None = None, finish: str | None = None) -> dict[str, Any]:
    usage = None if used is None else {"prompt_tokens": 7, "completion_tokens": used}
    return {"choices": [{"text": text, "finish_reason": finish}], "usage": usage}


END = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}


def test_a_chunk_with_text_is_a_token() -> None:
    answer = said(word(), word(""), word(), word(finish="length"), END, "[DONE]")
    answer.check()
    assert (answer.times, answer.counts) == ([1.0, 2.0, 2.5], [1, 1, 1])
    assert answer.gaps() == [1.0, 0.5]
    assert (answer.tokens, answer.counted, answer.prompt_tokens, answer.finish) == (3, 3, 7, "length")


def test_usage_in_every_chunk_counts_its_tokens() -> None:
    answer = said(word("", 0), word("", 1), word("abc", 4), word("d", 5), END | word("", 5))
    assert (answer.times, answer.counts) == ([1.5, 2.0, 2.5], [1, 3, 1])
    assert answer.gaps() == [0.5, 0.0, 0.0, 0.5]


def test_tokens_beyond_the_chunks_are_known_to_have_no_time() -> None:
    answer = said(word(), word(), END, "[DONE]")
    assert (answer.tokens, answer.counted, answer.gaps()) == (3, 2, [0.5])


def test_chat_deltas_and_reasoning_are_text() -> None:
    shown: list[str] = []
    answer = Answer(shown.append)
    for delta in ({"role": "assistant"}, {"reasoning_content": "hm"}, {"content": "yes"}, {"content": None}):
        answer.body(1.0, f"data: {json.dumps({'choices': [{'delta': delta}]})}\n\n".encode())
    assert (shown, answer.counted) == (["hm", "yes"], 2)


def test_where_the_time_went_is_kept() -> None:
    spent = {"queued_s": 0.001, "prefill_s": 0.25}
    answer = said(word(), word(), END | {"timing": spent}, "[DONE]", at=2.0)
    assert answer.timing == spent
    answer.sent(1.0)
    assert account(answer) == [
        "TTFT 1,000 ms, 3 tokens, 4.00 tokens/s",
        "TBT 500.0 ms at the median, 500.0 ms at most",
        "where the time went: queued 1.00 ms, prefill 250.0 ms",
    ]


def test_only_the_first_choice_counts() -> None:
    both = {"choices": [{"text": "a"}, {"text": "b"}]}
    assert said(both, both, "[DONE]").counts == [1, 1]


@pytest.mark.parametrize(
    ("chunks", "told"),
    [
        ((word(), {"error": {"message": "no memory"}}, "[DONE]"), "malformed: no memory"),
        ((word(), "{]", "[DONE]"), "malformed: not a completion chunk"),
        ((word(), "[]", "[DONE]"), "malformed: not a completion chunk"),
        ((word(), {"choices": 3}, "[DONE]"), "malformed: not a completion chunk"),
        ((word(), {"choices": [], "usage": {}}, "[DONE]"), "malformed: not a completion chunk"),
        ((word(), word()), "disconnect"),
        (("[DONE]",), "malformed: the answer has no tokens"),
        ((), "disconnect"),
    ],
)
def test_what_is_no_whole_answer(chunks: tuple[Any, ...], told: str) -> None:
    with pytest.raises(AnswerError, match=told):
        said(*chunks).check()


def test_a_finish_reason_ends_an_answer_as_well() -> None:
    said(word(), word(finish="stop")).check()
