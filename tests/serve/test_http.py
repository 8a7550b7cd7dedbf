"""What goes on around a body, on bare sockets: too much, too slow, and what is no HTTP."""

import contextlib
import json
import socket
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.serve.http import HEAD_BYTES

WITHIN_S = 20.0
MORE_THAN_IS_READ_AT_ONCE = 1 << 20
LINE = b"GET /version HTTP/1.1\r\nHost: x\r\n"
CHUNKED = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


def connected(server):
    host, port = server.address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), WITHIN_S)


def until_closed(server, *parts):
    """All that the server says to these bytes until it closes the connection."""
    with connected(server) as connection:
        for part in parts:
            connection.sendall(part)
        said = b""
        while got := connection.recv(1 << 16):
            said += got
        return said


def refusal(said):
    """Status and code of the one answer in ``said``, an error object."""
    head, _, body = said.partition(b"\r\n\r\n")
    assert b"connection: close" in head.lower()
    return int(head.split()[1]), json.loads(body)["error"]["code"]


@pytest.mark.parametrize(
    "head",
    [
        LINE + b"a: " + b"x" * HEAD_BYTES + b"\r\n\r\n",
        LINE + b"a: b\r\n" * (HEAD_BYTES // 2) + b"\r\n",
        b"GET /version?" + b"x" * HEAD_BYTES + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=["one", "many", "path"],
)
def test_too_long_a_head_is_refused(server, head):
    assert refusal(until_closed(server, head)) == (431, "headers_too_large")


@pytest.mark.parametrize("begun", [LINE + b"a: ", CHUNKED + b"0\r\na: "], ids=["head", "trailer"])
def test_a_header_without_end_closes_the_connection(server, begun):
    with connected(server) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(begun)
        connection.sendall(b"x" * MORE_THAN_IS_READ_AT_ONCE)
        while connection.recv(1 << 16):
            pass
    assert server.complete("a").status_code == 200


def test_long_heads_pass_and_the_connection_stays_open(server):
    with connected(server) as connection:
        for _ in range(2):
            connection.sendall(LINE + b"a: " + b"x" * (HEAD_BYTES - 100) + b"\r\n\r\n")
            said = b""
            while b"}" not in said:
                got = connection.recv(1 << 16)
                assert got, "the connection was closed"
                said += got
            assert said.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("said", [b"\x16\x03\x01\x02\x00\x01\x00", b"hello\r\n\r\n", b"GET /version HTTP/9.9\r\n\r\n"])
def test_what_is_no_http_is_told(server, said):
    assert refusal(until_closed(server, said)) == (400, "invalid_http")


def test_headers_that_do_not_come_are_not_waited_for(serving):
    with serving(read_within_s=0.3) as server:
        for part in (b"", b"GET /version HTT", LINE):
            assert refusal(until_closed(server, part)) == (408, "headers_timeout")
        late = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"
        assert refusal(until_closed(server, late)) == (408, "body_timeout")


def test_an_answer_is_not_cut_for_the_next_request_that_is_late(serving):
    text = json.dumps({"prompt": "abcde" * 8, "max_tokens": 40}).encode()
    asked = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text)
    with serving(step_s=0.05, read_within_s=0.3) as server:
        answer, refused = until_closed(server, asked, b"GET /vers").split(b"HTTP/1.1 ")[1:]
        assert answer.startswith(b"200 ")
        assert refusal(b"HTTP/1.1 " + refused) == (408, "headers_timeout")


def test_a_chunked_body_over_the_limit_closes_the_connection(serving):
    with serving(max_body_bytes=1000) as server:
        assert refusal(until_closed(server, CHUNKED, b"3e9\r\n" + b"x" * 1001 + b"\r\n")) == (413, "body_too_large")


def test_a_body_that_nobody_reads_closes_the_connection(serving):
    with serving(keys=["k"]) as server:
        assert refusal(until_closed(server, CHUNKED)) == (401, "invalid_api_key")
        assert refusal(until_closed(server, CHUNKED.replace(b"completions", b"nothing")))[0] == 401
    with serving() as server:
        assert refusal(until_closed(server, CHUNKED.replace(b"completions", b"nothing"))) == (404, "not_found")


def test_a_body_in_chunks_of_a_byte_passes(server):
    body = json.dumps({"prompt": "hello", "user": "x" * HEAD_BYTES}).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    parts = [chunks[at : at + 5000] for at in range(0, len(chunks), 5000)]
    said = until_closed(server, CHUNKED.replace(b"Host: x", b"Host: x\r\nConnection: close"), *parts, b"0\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 200 ")


TEXT = json.dumps({"prompt": "abc"}).encode()
TOKENIZE = b"POST /tokenize HTTP/1.1\r\nHost: x\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(TEXT)
WHOLE = TOKENIZE + LENGTH + b"\r\n" + TEXT
CHUNKS = b"%x\r\n%b\r\n0\r\na: b\r\n\r\n" % (len(TEXT), TEXT)
UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
IN_A_ROW = (
    WHOLE,
    TOKENIZE + UPGRADE + LENGTH + b"\r\n" + TEXT,
    TOKENIZE + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKS,
    TOKENIZE + b"Transfer-Encoding: chunked\r\n" + UPGRADE + b"\r\n" + CHUNKS,
    LINE + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    LINE + b"Connection: close\r\n\r\n",
)


@settings(max_examples=25, deadline=None)
@given(st.sets(st.integers(1, len(b"".join(IN_A_ROW)) - 1), max_size=12))
def test_requests_in_a_row_and_in_any_pieces_are_answered_in_order(server, cuts):
    said = b"".join(IN_A_ROW)
    places = [0, *sorted(cuts), len(said)]
    answers = until_closed(server, *(said[begin:end] for begin, end in pairwise(places)))
    bodies = [answer.partition(b"\r\n\r\n")[2] for answer in answers.split(b"HTTP/1.1 200 OK\r\n")[1:]]
    assert [sorted(json.loads(body)) for body in bodies] == [["count", "max_model_len", "tokens"]] * 4 + [
        ["version"]
    ] * 2


@pytest.mark.parametrize(
    "framed",
    [
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n-3\r\nabc\r\n",
        b"Transfer-Encoding: gzip\r\n\r\nabc",
        b"Transfer-Encoding: gzip\r\n" + UPGRADE + b"\r\nabc",
        b"Transfer-Encoding: chunked\r\n" + LENGTH + b"\r\n" + CHUNKS,
        LENGTH + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKS,
        b"Content-Length: abc\r\n\r\nabc",
        b"Content-Length: -1\r\n\r\nabc",
        b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    ],
)
def test_a_body_that_is_framed_wrong_is_told_after_what_came_before(server, framed):
    assert refusal(until_closed(server, TOKENIZE + framed)) == (400, "invalid_http")
    answer, refused = until_closed(server, WHOLE + TOKENIZE + framed).split(b"HTTP/1.1 ")[1:]
    assert answer.startswith(b"200 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["count"] == len("abc")
    assert refusal(b"HTTP/1.1 " + refused) == (400, "invalid_http")


@pytest.mark.parametrize("garbage", [b"garbage\r\n\r\n", b"\0\1\2", b"GET /" + b"x" * HEAD_BYTES])
def test_what_came_whole_is_answered_whatever_follows(serving, garbage):
    text = b'{"prompt": "abcde", "stream": true}'
    asked = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text)
    with serving(step_s=0.05) as server:
        said = until_closed(server, asked + WHOLE + garbage, b"more")
    streamed, tokens, refused = said.split(b"HTTP/1.1 ")[1:]
    assert b"[DONE]" in streamed
    assert tokens.startswith(b"200 ")
    assert refusal(b"HTTP/1.1 " + refused)[0] in (400, 431)


def test_a_proxy_is_not_here(server):
    assert refusal(until_closed(server, b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n")) == (400, "invalid_http")


@pytest.mark.parametrize("stream", [True, False])
def test_nobody_works_for_a_client_that_left_while_its_next_request_waited(slow, wait, stream):
    aborted = slow.metric("vllm:request_success_total")
    text = json.dumps({"prompt": "x", "max_tokens": 4000, "ignore_eos": True, "stream": stream}).encode()
    asked = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text)
    with connected(slow) as connection:
        connection.sendall(asked)
        wait(lambda: slow.metric("vllm:num_requests_running") == 1)
        connection.sendall(WHOLE)
        wait(lambda: slow.metric("vllm:num_requests_running") == 1)
    wait(lambda: slow.metric("vllm:request_success_total") == aborted + 1)
    wait(lambda: slow.metric("vllm:num_requests_running") == 0)


@pytest.mark.parametrize(
    ("first", "status"),
    [
        (TOKENIZE + b"Content-Length: 2\r\n\r\n{}", b"400"),
        (b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n", b"404"),
        (b"GET /tokenize HTTP/1.1\r\nHost: x\r\n\r\n", b"405"),
        (b"HEAD /health HTTP/1.1\r\nHost: x\r\n\r\n", b"200"),
        (b"HEAD /tokenize HTTP/1.1\r\nHost: x\r\n\r\n", b"405"),
    ],
)
def test_after_an_answer_to_a_whole_request_comes_the_next(server, first, status):
    answer, version = until_closed(server, first + LINE + b"Connection: close\r\n\r\n").split(b"HTTP/1.1 ")[1:]
    assert answer.startswith(status)
    assert answer.endswith(b"\r\n\r\n") == first.startswith(b"HEAD")
    assert version.endswith(b'"}')


def test_a_body_is_asked_for_only_where_it_is_read(server):
    expecting = b"Expect: 100-continue\r\n"
    with connected(server) as connection:
        connection.sendall(TOKENIZE + LENGTH + expecting + b"\r\n")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 100 ")
        connection.sendall(TEXT)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
    assert refusal(until_closed(server, TOKENIZE + expecting + b"Content-Length: 99999999\r\n\r\n"))[0] == 413
    nothing = TOKENIZE.replace(b"tokenize", b"nothing")
    assert refusal(until_closed(server, nothing + LENGTH + expecting + b"\r\n"))[0] == 404


def test_who_sends_far_too_much_can_send_all_of_it_and_read_why_not(serving):
    with serving(max_body_bytes=1000) as server, connected(server) as connection:
        connection.sendall(TOKENIZE + b"Content-Length: %d\r\n\r\n" % (16 << 20))
        for _ in range(16):
            connection.sendall(bytes(1 << 20))
        said = b""
        while got := connection.recv(1 << 16):
            said += got
        assert refusal(said) == (413, "body_too_large")
