"""``/v1/completions`` over a real socket, with a worker that echoes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def texts(response):
    assert response.status_code == 200, response.text
    return [choice["text"] for choice in response.json()["choices"]]


def test_text(server):
    reply = server.complete("hello", model="echo").json()
    assert reply["object"] == "text_completion"
    assert reply["model"] == "echo"
    (choice,) = reply["choices"]
    assert choice == {"index": 0, "text": "hello", "logprobs": None, "finish_reason": "stop"}
    assert reply["usage"] == {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}


def test_prompts_as_lists_and_token_ids(server):
    ids = server.post("/tokenize", {"prompt": "abc"}).json()["tokens"]
    assert texts(server.complete(ids)) == ["abc"]
    assert texts(server.complete(["abc", "de"])) == ["abc", "de"]
    assert texts(server.complete([ids, ids[:1]])) == ["abc", "a"]


def test_n_counts_each_prompt_once_in_usage(server):
    reply = server.complete(["ab", "c"], n=2, seed=1)
    assert texts(reply) == ["ab", "ab", "c", "c"]
    assert reply.json()["usage"] == {"prompt_tokens": 3, "completion_tokens": 6, "total_tokens": 9}


def test_length_is_a_reason_to_end(server):
    (choice,) = server.complete("hello", max_tokens=3).json()["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("hel", "length")
    (choice,) = server.complete("ab", max_tokens=5, ignore_eos=True).json()["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("ababa", "length")


@pytest.mark.parametrize("stop", ["lo wo", ["zzz", "lo w"]])
def test_stop_strings_end_the_text_and_free_the_worker(server, wait, stop):
    (choice,) = server.complete("hello world, and so on", stop=stop).json()["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("hel", "stop")
    wait(lambda: server.metric("vllm:num_requests_running") == 0)


def test_stop_string_may_stay(server):
    assert texts(server.complete("hello world", stop="lo", include_stop_str_in_output=True)) == ["hello"]


def test_echo(server):
    assert texts(server.complete("hello", echo=True, max_tokens=2)) == ["hellohe"]


def test_logprobs(server):
    (choice,) = server.complete("ab", logprobs=2).json()["choices"]
    assert choice["logprobs"]["tokens"] == ["a", "b"]
    assert choice["logprobs"]["token_logprobs"] == [-0.5, -0.5]
    assert choice["logprobs"]["top_logprobs"][0] == {"a": -0.5, "b": -9999.0}
    assert choice["logprobs"]["text_offset"] == [0, 1]
    (plain,) = server.complete("ab", logprobs=0).json()["choices"]
    assert plain["logprobs"]["top_logprobs"] == [{}, {}]


def test_token_ids_on_request(server):
    (choice,) = server.complete("ab", return_token_ids=True).json()["choices"]
    assert choice["token_ids"] == choice["prompt_token_ids"]


@settings(max_examples=15, deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=12), min_size=1, max_size=3))
def test_a_stream_is_the_whole_in_pieces(server, prompts):
    body = {"prompt": prompts, "max_tokens": 100, "n": 2, "logprobs": 1, "return_token_ids": True}
    whole = server.complete(**body).json()
    streamed = server.events("/v1/completions", {**body, "stream_options": {"include_usage": True}})
    assert streamed[-1]["choices"] == []
    assert streamed[-1]["usage"] == whole["usage"]
    assert all(event["usage"] is None for event in streamed[:-1])
    for choice in whole["choices"]:
        pieces = [each for event in streamed[:-1] for each in event["choices"] if each["index"] == choice["index"]]
        assert "".join(piece["text"] for piece in pieces) == choice["text"]
        assert [token for piece in pieces for token in piece["token_ids"]] == choice["token_ids"]
        assert [piece["finish_reason"] for piece in pieces][-1] == choice["finish_reason"]
        places = [place for piece in pieces for place in piece["logprobs"]["text_offset"]]
        assert places == choice["logprobs"]["text_offset"]


def test_usage_in_every_event(server):
    events = server.events(
        "/v1/completions", {"prompt": "abc", "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    )
    assert [event["usage"]["completion_tokens"] for event in events] == [1, 2, 3, 3]


REFUSED = [
    ({"prompt": "x", "temperatur": 1}, "temperatur", "did you mean temperature"),
    ({"prompt": "x", "suffix": "y"}, "suffix", "not a field"),
    ({"prompt": "x", "n": "2"}, "n", "integer"),
    ({"prompt": "x", "n": True}, "n", "integer"),
    ({"prompt": "x", "top_k": 2**70}, "top_k", "less"),
    ({"prompt": "x", "seed": 2**70}, "seed", "less"),
    ({"prompt": "x", "best_of": 3}, "best_of", "other than n"),
    ({"prompt": "x", "echo": True, "logprobs": 1}, "echo", "no logprobs"),
    ({"prompt": "x", "temperature": -1}, "temperature", "greater"),
    ({"prompt": "x", "top_p": 0}, "top_p", "greater"),
    ({"prompt": "x", "stop": ""}, "stop", "at least 1"),
    ({"prompt": "x", "logit_bias": {"a": 1}}, "logit_bias", "token ids"),
    ({"prompt": "x", "logit_bias": {"9" * 5000: 1}}, "logit_bias", "token ids"),
    ({"prompt": "x", "logit_bias": {"1": 1, "01": 2}}, "logit_bias", "token ids"),
    ({"prompt": "x", "logit_bias": {"99999": 1}}, "logit_bias", "0 to 257"),
    ({"prompt": "x", "stop_token_ids": [99999]}, "stop_token_ids", "0 to 257"),
    ({"prompt": "x", "min_tokens": 20, "max_tokens": 10}, "min_tokens", "0 to 10"),
    ({"prompt": "x", "stream_options": {"include_usage": True}}, "stream_options", "stream: true"),
    ({"prompt": "x", "stream": True, "stream_options": {"usage": True}}, "stream_options.usage", "not a field"),
    ({"prompt": "x", "response_format": {"type": "xml"}}, "response_format.type", "json_object"),
    ({"prompt": "x", "guided_regex": "("}, "guided_regex", ""),
    ({"prompt": "x", "guided_regex": "a", "guided_choice": ["a"]}, "guided_regex", "give one"),
    ({"prompt": "x", "guided_choice": ["a"] * 1025}, "guided_choice", "at most 1024"),
    ({"prompt": "x", "guided_regex": "a" * 65_537}, "guided_regex", "at most 65536"),
    ({"prompt": ["x"] * 129}, "n", "at most 128"),
    ({"prompt": ["x"] * 100_000}, "prompt", "at most 1024"),
    ({"prompt": "x", "structured_outputs": {"regex": "a", "choice": ["a"]}}, "structured_outputs", "one of"),
    ({"prompt": [999]}, "prompt", "0 to 257"),
    ({"prompt": [[1], [999]]}, "prompt", "0 to 257"),
    ({"prompt": "x", "priority": 1}, "priority", "order=priority"),
    ({"prompt": []}, "prompt", ""),
    ({"prompt": ""}, "prompt", ""),
    ({"prompt": ["x", 1]}, "prompt.1", "string"),
    ({}, "prompt", "required"),
    ({"prompt": "x", "max_tokens": 4096}, "max_tokens", "room for 4095"),
    ({"prompt": [1] * 4096}, "prompt", "at most 4095"),
    ({"prompt": "x", "n": 128, "max_tokens": 1, "model": "other"}, "model", "not served"),
    ({"prompt": ["x"] * 3, "n": 128}, "n", "at most 128"),
    ([], None, "one JSON object"),
]


@pytest.mark.parametrize(("body", "param", "words"), REFUSED)
def test_what_is_wrong_is_named(server, body, param, words):
    reply = server.post("/v1/completions", body)
    error = reply.json()["error"]
    assert reply.status_code == (404 if param == "model" else 400)
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param
    assert words in error["message"]


def test_a_null_field_counts_as_not_given(server):
    assert texts(server.complete("ab", stop=None, seed=None, logit_bias=None, best_of=None)) == ["ab"]


def test_what_the_engine_refuses_is_the_clients_error(server):
    reply = server.complete("REFUSED")
    assert reply.status_code == 400
    assert "something else" in reply.json()["error"]["message"]


def test_what_breaks_the_engine_is_not_told(server):
    reply = server.complete("BROKEN")
    assert reply.status_code == 500
    assert "it broke" not in reply.text
    (event,) = server.events("/v1/completions", {"prompt": "BROKEN"})
    assert event["error"]["code"] == "engine_error"


def test_where_the_time_went_is_told_on_request(server):
    parts = {"queued_s", "prefill_s", "stall_s", "decode_s"}
    body = {"prompt": "hello", "max_tokens": 100, "include_timing": True}
    assert server.complete("hello", include_timing=True).json()["timing"].keys() == parts
    assert server.events("/v1/completions", body)[-1]["timing"].keys() == parts
    assert "timing" not in server.complete("hello").json()
