"""The requests that load generators send, word for word."""

import json

import pytest

COMPLETION = {
    "model": "echo",
    "prompt": "hello",
    "repetition_penalty": 1.0,
    "temperature": 0.0,
    "max_tokens": 8,
    "logprobs": None,
    "ignore_eos": True,
    "stream": True,
    "stream_options": {"include_usage": True},
}
CHAT = {
    "model": "echo",
    "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
    "temperature": 0.0,
    "max_completion_tokens": 8,
    "ignore_eos": True,
    "stream": True,
    "stream_options": {"include_usage": True},
}
BOUNDED = {**CHAT, "min_tokens": 8, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/completions", COMPLETION), ("/v1/chat/completions", CHAT), ("/v1/chat/completions", BOUNDED)],
)
def test_a_stream_is_as_long_as_was_asked_and_ends_with_its_usage(server, path, body):
    events = server.events(path, body)
    *chunks, last = events
    assert all(len(event["choices"]) == 1 for event in chunks)
    assert len(chunks) == 8
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 8
    texts = [event["choices"][0].get("text") or event["choices"][0].get("delta", {}).get("content") for event in chunks]
    assert "".join(texts) == "hellohel"


def test_they_find_the_model_and_wait_until_it_is_ready(server):
    assert server.http.get("/health").status_code == 200
    card = server.http.get("/v1/models").json()["data"][0]
    assert card["id"] == "echo"
    assert json.dumps(card["max_model_len"]).isdigit()
