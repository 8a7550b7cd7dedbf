"""The requests that load generators and other clients send, word for word."""

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
    assert 1 <= len(chunks) <= 8
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 8
    texts = [event["choices"][0].get("text") or event["choices"][0].get("delta", {}).get("content") for event in chunks]
    assert "".join(texts) == "hellohel"


def test_they_find_the_model_and_wait_until_it_is_ready(server):
    assert server.http.get("/health").status_code == 200
    card = server.http.get("/v1/models").json()["data"][0]
    assert card["id"] == "echo"
    assert json.dumps(card["max_model_len"]).isdigit()


MESSAGE = {"role": "user", "content": "hello"}
ANSWERED = {
    "role": "assistant",
    "content": "hello",
    "refusal": None,
    "annotations": [],
    "audio": None,
    "tool_calls": None,
}
UNASKED = [
    {"store": False, "service_tier": "auto", "modalities": ["text"], "top_logprobs": 0, "tool_choice": "none"},
    {"metadata": {"team": "a"}, "safety_identifier": "b", "prompt_cache_key": "c"},
    {"use_beam_search": False, "length_penalty": 1.0, "spaces_between_special_tokens": True, "bad_words": []},
    {"add_special_tokens": False, "continue_final_message": False, "echo": False, "include_reasoning": True},
    {"prompt_logprobs": None, "truncate_prompt_tokens": None, "reasoning_effort": None, "a_field_to_come": None},
    {"messages": [MESSAGE, ANSWERED, MESSAGE]},
]


@pytest.mark.parametrize("fields", UNASKED)
def test_what_asks_for_nothing_changes_nothing(server, fields):
    reply = server.chat(**{"messages": [MESSAGE], **fields})
    assert reply.status_code == 200, reply.text
    assert reply.json()["choices"][0]["message"]["content"] == "hello"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("store", True),
        ("service_tier", "flex"),
        ("modalities", ["text", "audio"]),
        ("metadata", {"a": 1}),
        ("use_beam_search", True),
        ("use_beam_search", 0),
        ("include_reasoning", 1),
        ("length_penalty", 2),
        ("spaces_between_special_tokens", False),
        ("bad_words", ["x"]),
        ("add_special_tokens", True),
        ("continue_final_message", True),
        ("echo", True),
        ("include_reasoning", False),
        ("reasoning_effort", "low"),
        ("prompt_logprobs", 1),
        ("tool_choice", "required"),
    ],
)
def test_what_would_change_the_answer_is_refused_by_name(server, field, value):
    reply = server.chat(**{field: value})
    assert reply.status_code == 400
    assert reply.json()["error"]["param"].partition(".")[0] == field


def test_whose_a_request_is_goes_to_the_log(serving):
    labels = {"metadata": {"team": "a"}, "safety_identifier": "b", "prompt_cache_key": "c", "user": "d"}
    with serving() as server:
        assert server.chat(**labels).status_code == 200
        server.stop()
        (line,) = [line for line in server.log() if line.get("path") == "/v1/chat/completions"]
    assert {name: line[name] for name in labels} == labels


def test_an_api_that_is_not_served_says_which_one_is(server):
    reply = server.post("/v1/responses", {"model": "echo", "input": "hello"})
    assert reply.status_code == 400
    assert "/v1/chat/completions" in reply.json()["error"]["message"]


def test_the_name_to_load_a_tokenizer_by_is_a_name_to_ask_for(serving, model):
    with serving(served_name=None) as server:
        card = server.http.get("/v1/models").json()["data"][0]
        assert card["root"] == card["id"] == str(model)
        assert server.post("/tokenize", {"model": card["root"], "prompt": "ab"}).json()["count"] == 2


def test_head_asks_whether_it_is_there(server):
    for path in ("/health", "/v1/models", "/metrics"):
        reply = server.http.head(path)
        assert (reply.status_code, reply.content) == (200, b"")


def test_a_tool_as_the_official_client_makes_it_of_a_class(server):
    parameters = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    tool = {"type": "function", "function": {"name": "add", "strict": True, "parameters": parameters}}
    (choice,) = server.chat('<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>', tools=[tool]).json()[
        "choices"
    ]
    assert choice["finish_reason"] == "tool_calls"
    bad = {**tool, "function": {**tool["function"], "parameters": {"type": "nothing"}}}
    reply = server.chat("hello", tools=[bad])
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "tools")
