"""Clients that leave, that are late, and that read slowly."""

import json
import re
import socket
import threading
import time

import pytest


def request(server, fields):
    """Send a completion request over a bare socket."""
    body = json.dumps(fields)
    host, port = server.address.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), 10)
    head = f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
    return connection


def idle(server):
    return server.metric("vllm:num_requests_running") == 0 and server.metric("vllm:kv_cache_usage_perc") == 0


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_request_at_once(slow, wait, stream):
    tokens, ended = slow.metric("vllm:generation_tokens_total"), slow.metric("vllm:request_success_total")
    body = {"prompt": "x", "max_tokens": 4000, "ignore_eos": True, "n": 2, "stream": stream}
    connection = request(slow, body)
    wait(lambda: slow.metric("vllm:generation_tokens_total") > tokens + 4)
    wait(lambda: slow.metric("vllm:num_requests_running") == 2)
    connection.close()
    wait(lambda: idle(slow))
    wait(lambda: slow.metric("vllm:request_success_total") == ended + 2)
    assert 'finished_reason="abort"' in slow.http.get("/metrics").text


def test_a_client_that_leaves_before_the_first_token_leaves_no_trace(slow, wait):
    prompts = slow.metric("vllm:prompt_tokens_total")
    connection = request(slow, {"prompt": "x" * 200})
    wait(lambda: slow.metric("vllm:prompt_tokens_total") == prompts + 200)
    connection.close()
    wait(lambda: idle(slow))


def test_a_slow_reader_holds_up_nobody(server, wait):
    late = request(server, {"prompt": "x", "max_tokens": 2000, "ignore_eos": True, "stream": True})
    began = time.perf_counter()
    assert server.complete("hello").status_code == 200
    assert time.perf_counter() - began < 5
    wait(lambda: idle(server), within_s=30)
    late.settimeout(10)
    data = b""
    while b"[DONE]" not in data:
        got = late.recv(1 << 20)
        assert got, "the stream ended early"
        data += got
    late.close()
    events = [json.loads(part) for part in re.findall(rb"data: ({.*})\n\n", data)]
    assert "".join(event["choices"][0]["text"] for event in events) == "x" * 2000


def test_a_deadline_ends_a_request(slow, wait):
    body = {"prompt": "x", "max_tokens": 4000, "ignore_eos": True}
    late = slow.post("/v1/completions", {**body, "deadline_s": 0.3})
    assert (late.status_code, late.json()["error"]["code"]) == (408, "deadline_exceeded")
    events = slow.events("/v1/completions", {**body, "deadline_s": 0.4})
    assert events[-1]["error"]["code"] == "deadline_exceeded"
    assert 1 < len(events) < 25
    wait(lambda: idle(slow))
    assert slow.complete("ab").status_code == 200


def test_health_answers_while_a_long_prompt_is_computed(slow, wait):
    prompts = slow.metric("vllm:prompt_tokens_total")
    long = threading.Thread(target=slow.complete, args=("x" * 300,))
    long.start()
    wait(lambda: slow.metric("vllm:prompt_tokens_total") == prompts + 300)
    times = []
    for _ in range(20):
        began = time.perf_counter()
        assert slow.http.get("/health").status_code == 200
        times.append(time.perf_counter() - began)
    assert long.is_alive()
    assert sorted(times)[len(times) // 2] < 0.05
    long.join(20)
    assert not long.is_alive()
