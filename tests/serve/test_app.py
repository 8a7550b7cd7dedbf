"""The routes of a running server that only read, and what every answer has."""

import pytest


def test_says_how_it_is(server):
    assert server.http.get("/live").json() == {"status": "live"}
    assert server.http.get("/health").json() == {"status": "ready"}
    assert set(server.http.get("/version").json()) == {"version"}


def test_lists_its_model(server):
    (card,) = server.http.get("/v1/models").json()["data"]
    assert card["id"] == "echo"
    assert card["max_model_len"] == 4096
    assert server.http.get("/v1/models/echo").json() == card
    missing = server.http.get("/v1/models/gpt-9")
    assert missing.status_code == 404
    assert missing.json()["error"]["code"] == "model_not_found"


def test_refuses_embeddings_clearly(server):
    refusal = server.post("/v1/embeddings", {"model": "echo", "input": "x"})
    assert refusal.status_code == 400
    assert "embeddings are not served" in refusal.json()["error"]["message"]


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nope", 404), ("GET", "/v1/completions", 405)])
def test_unknown_places_are_openai_errors(server, method, path, status):
    reply = server.http.request(method, path)
    assert reply.status_code == status
    assert set(reply.json()["error"]) == {"message", "type", "param", "code"}
    assert (status == 405) == ("allow" in reply.headers)


def test_request_id_is_kept_when_plain_and_made_otherwise(server):
    assert server.complete(X_Request_Id="mine").status_code == 400
    kept = server.post("/v1/completions", {"prompt": "x"}, X_Request_Id="my-id.1")
    assert kept.headers["x-request-id"] == "my-id.1"
    made = server.post("/v1/completions", {"prompt": "x"}, X_Request_Id="a b")
    assert len(made.headers["x-request-id"]) == 32


def test_log_has_one_line_a_request(server, wait):
    def lines():
        return [line for line in server.log() if line.get("request_id") == "logged"]

    body = {"prompt": "hello", "max_tokens": 9, "user": "ann"}
    server.post("/v1/completions", body, X_Request_Id="logged")
    wait(lambda: len(lines()) == 1)
    (line,) = lines()
    assert line["status"] == 200
    assert (line["prompt_tokens"], line["output_tokens"], line["user"]) == (5, 5, "ann")
    assert 0 < line["ttft_s"] <= line["seconds"]
