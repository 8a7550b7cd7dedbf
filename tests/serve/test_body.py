"""Reading bodies: types, sizes, what is no JSON, and what would hold up everybody."""

import json
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.serve import body
from twofold.serve.body import MOST_VALUES, OF_A_LIST, values_in

JSON = {"content-type": "application/json"}


def post(server, content, headers=JSON):
    return server.http.post("/v1/completions", content=content, headers=headers)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b'{"prompt": NaN}', b'{"prompt": "\\ud800"}', b"[" * 60_000, b'{"prompt": "x"} trailing'],
)
def test_what_is_no_json_is_refused(server, content):
    reply = post(server, content)
    assert reply.status_code == 400
    assert reply.json()["error"]["code"] == "invalid_json"


@pytest.mark.parametrize(
    "headers", [{"content-type": "text/plain"}, {**JSON, "content-encoding": "gzip"}], ids=["type", "compressed"]
)
def test_another_type_is_refused(server, headers):
    reply = post(server, b'{"prompt": "x"}', headers)
    assert (reply.status_code, reply.json()["error"]["code"]) == (415, "unsupported_media_type")


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


MANY = 800_000
HEAVY = {
    "lists": b'{"prompt":[' + b",".join([b"[]"] * MANY) + b"]}",
    "lists of one": b'{"prompt":[' + b",".join([b"[1]"] * MANY) + b"]}",
    "numbers": b'{"prompt":[' + b",".join([b"1"] * MANY) + b"]}",
    "names": b'{"prompt":"x",' + b",".join(b'"%d":1' % number for number in range(400_000)) + b"}",
}


@pytest.mark.parametrize("content", HEAVY.values(), ids=HEAVY)
def test_what_would_hold_up_everybody_is_refused_before_it_is_read(server, content):
    reply = post(server, content)
    assert (reply.status_code, reply.json()["error"]["code"]) == (413, "body_too_large")


def test_a_body_of_many_values_is_taken(server):
    reply = post(server, json.dumps({"prompt": [1] * (MOST_VALUES - 100)}).encode())
    assert reply.json()["error"]["code"] == "context_length_exceeded"


def test_a_text_may_be_full_of_commas_and_brackets(server):
    reply = post(server, json.dumps({"prompt": 'a,["\\",{' * 200_000}).encode())
    assert reply.json()["error"]["code"] == "context_length_exceeded"


def held(value):
    """What :func:`values_in` says, by counting."""
    inside = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(value, list | dict):
        return 0
    return OF_A_LIST + max(len(value) - 1, 0) + sum(map(held, inside))


@settings(deadline=None)
@given(
    st.recursive(
        st.text(alphabet='a,[{}]\\"\n\u20ac') | st.integers() | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='{,"\\'), inner),
    )
)
def test_values_are_counted_outside_of_texts(value):
    data = json.dumps(value).encode()
    quick = values_in(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(body, "MOST_VALUES", -1)
        assert values_in(data) == held(value) <= quick


def test_a_text_far_too_long_is_refused_by_its_beginning(server):
    reply = post(server, json.dumps({"prompt": "a b," * 900_000}).encode())
    assert reply.json()["error"]["code"] == "context_length_exceeded"
    assert "over 32760 tokens" in reply.json()["error"]["message"]


def test_a_name_as_long_as_the_body_is_told_in_short(server):
    reply = post(server, json.dumps({"prompt": "x", "ab" * 500_000: 1}).encode())
    assert reply.status_code == 400
    assert len(reply.content) < 1000


def test_many_prompts_are_tokenised_beside_the_loop(serving):
    texts = ["a b c " * 600] * 1000
    with serving(max_choices=1000, max_queue=1000) as server:
        refused = []
        asking = threading.Thread(target=lambda: refused.append(server.complete(texts, max_tokens=10_000)))
        asking.start()
        answers = 0
        while asking.is_alive():
            assert server.http.get("/health").status_code == 200
            answers += 1
        asking.join(20)
    assert refused[0].json()["error"]["code"] == "context_length_exceeded"
    assert answers > 3
