"""The terminal client in a pipe, and turn by turn with the keyboard played."""

import io
import os
import subprocess
import sys
import time
from typing import Any

import pytest

from terminal import Terminal, terminal
from twofold.cli import chat
from twofold.clients.conversation import Conversation

CHAT = "import sys; from twofold.cli import chat; import typer; typer.run(chat.run)"


def test_a_pipe_is_one_prompt(here: Any, fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("a question\nof two lines\n"))
    shown = here("chat", fake.url, "--max-tokens", "3", "--system", "be short")
    assert shown == (0, " w0 w1 w2\n", "")
    messages = fake.recall()["seen"][0]["body"]["messages"]
    assert [message["content"] for message in messages] == ["be short", "a question\nof two lines"]


@pytest.mark.parametrize(
    ("arguments", "text", "told"),
    [
        (("http://127.0.0.1:1",), "hello", "accepted: a server that answers (connect: Connection refused)\n"),
        (("http://",), "hello", "URL"),
        (("FAKE",), " \n", "a prompt is needed"),
        (("FAKE", "--max-tokens", "102"), "hello", "http 500: fault 500"),
        (("FAKE", "--model", "other"), "hello", "--model"),
    ],
)
def test_bad_input_is_one_line(
    here: Any, fake: Any, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], text: str, told: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    shown = here("chat", *(fake.url if argument == "FAKE" else argument for argument in arguments))
    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert told in shown.err


def test_commands(fake: Any) -> None:
    conversation = Conversation(fake.url, fields={"max_tokens": 2})
    conversation.say("hello", str)
    assert chat.obey(conversation, "/system  be short ") == "[system prompt set]"
    assert conversation.system == "be short"
    assert chat.obey(conversation, "/system") == "[no system prompt]"
    assert conversation.system is None
    assert len(conversation.messages) == 2
    assert chat.obey(conversation, "/clear") == "[cleared]"
    assert conversation.messages == []
    assert "/quit" in chat.obey(conversation, "/what")


def interrupt(group: int, shown: Terminal) -> None:
    """Ctrl-C at the prompt until there is a new one: readline misses one that comes as it begins to wait."""
    for _ in range(60):
        os.killpg(group, 2)
        if shown.comes("> ", 2.0):
            return
    raise AssertionError("an interrupt at the prompt gives no new prompt")


def test_turns_on_a_terminal(fake: Any) -> None:
    command = [sys.executable, "-c", CHAT, fake.url, "--max-tokens", "5000"]
    with terminal() as shown:
        ends = {"stdin": shown.inside, "stdout": shown.inside, "stderr": shown.inside}
        client = subprocess.Popen(command, start_new_session=True, **ends)
        shown.leave_inside()
        try:
            shown.wait_for("> ")
            shown.type("hello\n")
            shown.wait_for("w3")
            os.killpg(client.pid, 2)
            shown.wait_for("[stopped]")
            shown.wait_for("> ")
            shown.type("/clear\n")
            shown.wait_for("[cleared]")
            shown.wait_for("> ")
            interrupt(client.pid, shown)
            shown.type("/quit\n")
            assert client.wait(30) == 0
        finally:
            client.kill()
            client.wait(30)
    end = time.monotonic() + 30
    while not (aborted := fake.recall()["aborted"]):
        assert time.monotonic() < end
    assert aborted == ["plain"]
