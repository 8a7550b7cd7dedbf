"""Answers that were not streamed: the outcomes of loads whose times are given."""

from collections.abc import Sequence

from twofold.clients.answer import Answer
from twofold.clients.http import AnswerError
from twofold.clients.load import Outcome


def outcome(due_s: float, times: Sequence[float], kind: str | None = None, sent_s: float | None = None) -> Outcome:
    """A request that was due at ``due_s`` and whose tokens came at ``times``; one that failed by ``kind``."""
    answer = Answer()
    answer.sent_s = due_s if sent_s is None else sent_s
    answer.times, answer.counts = list(times), [1] * len(times)
    answer.prompt_tokens, answer.completion_tokens = 10, len(times)
    answer._counted = len(times)
    failure = None if kind is None else AnswerError(kind, "the message")
    return Outcome(due_s, times[-1] if times else due_s, answer, failure)
