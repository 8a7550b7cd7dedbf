"""``/tokenize`` and ``/detokenize``."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=20, deadline=None)
@given(st.text(st.characters(codec="utf-8"), max_size=50))
def test_there_and_back(server, text):
    reply = server.post("/tokenize", {"prompt": text}).json()
    assert reply["count"] == len(reply["tokens"]) == len(text.encode())
    assert server.post("/detokenize", {"tokens": reply["tokens"]}).json() == {"prompt": text}


def test_a_long_text(server):
    assert server.post("/tokenize", {"prompt": "ab" * 10_000}).json()["count"] == 20_000


def test_a_conversation_has_the_tokens_of_its_prompt(server):
    messages = [{"role": "user", "content": "hi"}]
    reply = server.post("/tokenize", {"messages": messages, "return_token_strs": True}).json()
    assert reply["max_model_len"] == 4096
    assert reply["token_strs"][0] == "<|im_start|>"
    text = server.post("/detokenize", {"tokens": reply["tokens"]}).json()["prompt"]
    assert text == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    used = server.post("/v1/chat/completions", {"messages": messages}).json()["usage"]["prompt_tokens"]
    assert used == reply["count"]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {}, None),
        ("/tokenize", {"prompt": "x", "messages": [{"role": "user", "content": "x"}]}, None),
        ("/tokenize", {"text": "x"}, "text"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": [-1]}, "tokens.0"),
        ("/detokenize", {"tokens": [258]}, "tokens"),
        ("/detokenize", {"tokens": [2**70]}, "tokens.0"),
    ],
)
def test_what_is_wrong_is_named(server, path, body, param):
    reply = server.post(path, body)
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == param
