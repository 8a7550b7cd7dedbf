"""What happens around every request, on a bare application."""

import asyncio
import json
import logging

import httpx
import pytest

from twofold.serve.access import Access
from twofold.serve.logs import LOGGER, JsonLines
from twofold.serve.replies import JsonReply


async def app(scope, receive, send):
    if scope["path"] == "/broken":
        raise RuntimeError("secret")
    scope["state"]["log"]["extra"] = 1
    await JsonReply({})(scope, receive, send)


def get(path, keys=(), **headers):
    async def run():
        transport = httpx.ASGITransport(Access(app, keys))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get(path, headers=headers)

    return asyncio.run(run())


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, LOGGER)
    return lambda: [json.loads(JsonLines().format(record)) for record in caplog.records]


def test_each_request_is_one_line(lines):
    reply = get("/v1/x", **{"x-request-id": "mine"})
    assert reply.headers["x-request-id"] == "mine"
    (line,) = lines()
    assert {
        "event": "request",
        "request_id": "mine",
        "path": "/v1/x",
        "status": 200,
        "extra": 1,
    }.items() <= line.items()


def test_open_places_are_not_logged(lines):
    assert get("/health", keys=["k"]).status_code == 200
    assert lines() == []


def test_a_defect_tells_the_log_and_not_the_client(lines):
    reply = get("/broken")
    assert reply.status_code == 500
    assert "secret" not in reply.text
    trace, line = lines()
    assert "secret" in trace["trace"]
    assert trace["request_id"] == line["request_id"] == reply.headers["x-request-id"]
    assert line["status"] == 500


def test_without_a_key_the_application_is_not_reached(lines):
    assert get("/broken", keys=["k"]).status_code == 401
    assert get("/x", keys=["k"], authorization="Bearer k").status_code == 200
    assert [line["status"] for line in lines()] == [401, 200]
