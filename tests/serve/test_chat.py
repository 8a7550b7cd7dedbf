"""``/v1/chat/completions`` over a real socket, and through the official client."""

import json

import openai
import pytest

ADD = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": [2]}}\n</tool_call>'


def named(name):
    return {"type": "function", "function": {"name": name}}


def test_answer(server):
    reply = server.chat("hällo", temperature=0).json()
    assert reply["object"] == "chat.completion"
    (choice,) = reply["choices"]
    assert choice["message"] == {"role": "assistant", "content": "hällo"}
    assert choice["finish_reason"] == "stop"
    usage = reply["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["completion_tokens"] == 6


def test_parts_and_roles(server):
    messages = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    ]
    reply = server.post("/v1/chat/completions", {"messages": messages})
    assert reply.json()["choices"][0]["message"]["content"] == "a\nb"


def test_stream_begins_with_the_role(server):
    events = server.events("/v1/chat/completions", {"messages": [{"role": "user", "content": "aé"}]})
    deltas = [event["choices"][0]["delta"] for event in events]
    assert deltas == [{"role": "assistant", "content": "a"}, {"content": "é"}]
    assert [event["choices"][0]["finish_reason"] for event in events] == [None, "stop"]


def test_logprobs_have_bytes(server):
    content = server.chat("é", logprobs=True, top_logprobs=1).json()["choices"][0]["logprobs"]["content"]
    assert [entry["bytes"] for entry in content] == [[0xC3], [0xA9]]
    assert content[0]["top_logprobs"] == [{"token": "�", "logprob": -0.5, "bytes": [0xC3]}]


def test_tool_calls(server):
    (choice,) = server.chat(f"I add. {CALL}", tools=[ADD]).json()["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == "I add."
    (call,) = choice["message"]["tool_calls"]
    assert call["type"] == "function"
    assert call["function"]["name"] == "add"
    assert json.loads(call["function"]["arguments"]) == {"a": 1, "b": [2]}


def test_tool_calls_in_a_stream(server):
    body = {"messages": [{"role": "user", "content": CALL + CALL}], "tools": [ADD]}
    events = server.events("/v1/chat/completions", body)
    parts = [part for event in events for part in event["choices"][0]["delta"].get("tool_calls", ())]
    arguments = {0: "", 1: ""}
    for part in parts:
        arguments[part["index"]] += part["function"]["arguments"]
    assert [json.loads(text) for text in arguments.values()] == [{"a": 1, "b": [2]}] * 2
    assert len({part["id"] for part in parts if "id" in part}) == 2
    assert events[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_one_call_when_they_may_not_be_parallel(server):
    (choice,) = server.chat(CALL + CALL, tools=[ADD], parallel_tool_calls=False).json()["choices"]
    assert len(choice["message"]["tool_calls"]) == 1


def test_no_tools_when_none_may_be_called(server):
    (choice,) = server.chat(CALL, tools=[ADD], tool_choice="none").json()["choices"]
    assert choice["message"]["content"] == CALL


@pytest.mark.parametrize("choice", ["required", named("add")])
def test_a_forced_call_is_read_from_plain_json(server, choice):
    said = '{"name": "add", "arguments": {"a": 1}}'
    (answer,) = server.chat(said, tools=[ADD], tool_choice=choice).json()["choices"]
    assert answer["finish_reason"] == "tool_calls"
    assert answer["message"]["content"] is None
    (call,) = answer["message"]["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("add", {"a": 1})


REFUSED = [
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "robot", "content": "x"}]}, "messages.0.role"),
    ({"messages": [{"role": "user"}]}, "messages.0"),
    ({"messages": [{"role": "user", "content": "x", "audio": 1}]}, "messages.0.audio"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages.0.content.0.type"),
    ({"messages": [{"role": "user", "content": "x"}], "tool_choice": "required"}, "tool_choice"),
    ({"messages": [{"role": "user", "content": "x"}], "tools": [ADD], "tool_choice": "any"}, "tool_choice"),
    ({"messages": [{"role": "user", "content": "x"}], "tools": [ADD], "tool_choice": named("subtract")}, "tool_choice"),
    (
        {
            "messages": [{"role": "user", "content": "x"}],
            "tools": [ADD],
            "tool_choice": "required",
            "response_format": {"type": "json_object"},
        },
        "tool_choice",
    ),
    ({"messages": [{"role": "user", "content": "x"}], "top_logprobs": 2}, "top_logprobs"),
    ({"messages": [{"role": "user", "content": "x"}], "functions": []}, "functions"),
    ({"messages": [{"role": "user", "content": "x"}], "max_tokens": 1, "max_completion_tokens": 2}, "max_tokens"),
    ({"messages": [{"role": "user", "content": "x"}], "max_completion_tokens": 9999}, "max_completion_tokens"),
    ({"messages": [{"role": "user", "content": "x" * 5000}]}, "messages"),
    ({"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": {"messages": 1}}, "chat_template_kwargs"),
]


@pytest.mark.parametrize(("body", "param"), REFUSED)
def test_what_is_wrong_is_named(server, body, param):
    reply = server.post("/v1/chat/completions", body)
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == param


def test_the_official_client(server):
    client = openai.OpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=0, timeout=20)
    with client:
        assert [model.id for model in client.models.list()] == ["echo"]
        message = [{"role": "user", "content": "hello"}]
        whole = client.chat.completions.create(model="echo", messages=message, n=2, seed=1, stop=["zz"])
        assert [choice.message.content for choice in whole.choices] == ["hello", "hello"]
        stream = client.chat.completions.create(
            model="echo", messages=message, stream=True, stream_options={"include_usage": True}
        )
        chunks = list(stream)
        assert "".join(chunk.choices[0].delta.content for chunk in chunks[:-1]) == "hello"
        assert chunks[-1].usage.completion_tokens == 5
        text = client.completions.create(model="echo", prompt=["a", "bc"], max_tokens=9)
        assert [choice.text for choice in text.choices] == ["a", "bc"]
        with pytest.raises(openai.NotFoundError, match="not served"):
            client.chat.completions.create(model="gpt-9", messages=message)
        with pytest.raises(openai.BadRequestError, match="foo"):
            client.completions.create(model="echo", prompt="a", extra_body={"foo": 1})
