"""Reading bodies: types, sizes, and what is no JSON."""

import pytest

JSON = {"content-type": "application/json"}


def post(server, content, headers=JSON):
    return server.http.post("/v1/completions", content=content, headers=headers)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b'{"prompt": NaN}', b'{"prompt": "\\ud800"}', b"[" * 100_000, b'{"prompt": "x"} trailing'],
)
def test_what_is_no_json_is_refused(server, content):
    reply = post(server, content)
    assert reply.status_code == 400
    assert reply.json()["error"]["code"] == "invalid_json"


def test_another_type_is_refused(server):
    reply = post(server, b'{"prompt": "x"}', {"content-type": "text/plain"})
    assert reply.status_code == 415


def test_a_charset_is_fine(server):
    assert post(server, b'{"prompt": "x"}', {"content-type": "application/json; charset=utf-8"}).status_code == 200


def test_limit_holds_for_declared_and_for_chunked_bodies(serving):
    with serving(max_body_bytes=1000) as server:
        body = b'{"prompt": "' + b"x" * 2000 + b'"}'
        assert post(server, body).status_code == 413
        reply = post(server, (body[at : at + 100] for at in range(0, len(body), 100)))
        assert reply.status_code == 413
        assert reply.json()["error"]["code"] == "body_too_large"
        assert post(server, b'{"prompt": "x"}').status_code == 200
