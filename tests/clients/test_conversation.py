import os
import signal
import threading
from typing import Any

import pytest

from twofold.clients.conversation import Conversation
from twofold.clients.http import AnswerError
from twofold.errors import SpecError


def asked(fake: Any) -> list[list[str]]:
    """What each request has sent, as roles."""
    return [[message["role"] for message in record["body"]["messages"]] for record in fake.recall()["seen"]]


def test_every_turn_sends_all_that_was_said(fake: Any) -> None:
    conversation, shown = Conversation(fake.url, fields={"max_tokens": 3, "seed": 1}), []
    answer = conversation.say("hello", shown.append)
    assert ("".join(shown), answer.tokens) == (" w0 w1 w2", 3)
    conversation.system = "be short"
    conversation.say("again", shown.append)
    conversation.clear()
    conversation.say("once more", shown.append)
    assert asked(fake) == [["user"], ["system", "user", "assistant", "user"], ["system", "user"]]
    assert conversation.messages[1] == {"role": "assistant", "content": " w0 w1 w2"}


def test_fields_are_sent(fake: Any) -> None:
    Conversation(fake.url, fields={"max_tokens": 2, "temperature": 0.5}).say("hello", str)
    body = fake.recall()["seen"][0]["body"]
    assert (body["temperature"], body["max_tokens"], body["model"]) == (0.5, 2, "plain")


def test_an_answer_that_failed_leaves_no_trace(fake: Any) -> None:
    conversation = Conversation(fake.url, fields={"max_tokens": 102})
    with pytest.raises(AnswerError, match="http 500"):
        conversation.say("hello", str)
    assert conversation.messages == []


def test_an_interrupt_ends_the_answer_and_keeps_what_was_said(fake: Any) -> None:
    conversation, shown = Conversation(fake.url, fields={"max_tokens": 2000}), []

    def interrupt_at_the_second(piece: str) -> None:
        shown.append(piece)
        if len(shown) == 2:
            threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()

    with pytest.raises(KeyboardInterrupt):
        conversation.say("hello", interrupt_at_the_second)
    assert conversation.messages[1] == {"role": "assistant", "content": "".join(shown)}
    assert 2 <= len(shown) < 2000
    conversation.fields["max_tokens"] = 2
    conversation.say("go on", shown.append)
    assert fake.recall()["aborted"] == ["plain"]


def test_a_model_that_is_not_there(fake: Any) -> None:
    with pytest.raises(SpecError, match="--model: 'other'"):
        Conversation(fake.url, "other")
