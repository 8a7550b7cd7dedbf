"""The client against servers that answer with exact bytes."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import pytest

from twofold.clients.http import AnswerError, Client, Reply, Whole, error_message
from twofold.clients.target import Target

T = TypeVar("T")
OK = b"HTTP/1.1 200 OK\r\n"
HI = OK + b"Content-Length: 2\r\n\r\nhi"


def answered(answers: Sequence[bytes], ask: Callable[[Client], Awaitable[T]], timeout_s: float = 5.0) -> tuple[T, int]:
    """What ``ask`` gets from a server that gives these answers in turn, and how many connections that took.

    An answer that ends in CLOSE closes the connection.
    """
    left, connections = list(answers), []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                answer = left.pop(0)
                writer.write(answer.removesuffix(CLOSE))
                if answer.endswith(CLOSE):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    async def main() -> T:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = Client(Target(False, "127.0.0.1", server.sockets[0].getsockname()[1], ""), None, timeout_s)
        try:
            return await ask(client)
        finally:
            await client.close()
            server.close()
            await asyncio.sleep(0.01)

    return asyncio.run(main()), len(connections)


CLOSE = b"<close>"


async def get(client: Client) -> Reply:
    return await client.get("/")


@pytest.mark.parametrize(
    "answer",
    [
        HI,
        OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nh\r\n1\r\ni\r\n0\r\n\r\n",
        OK + b"\r\nhi" + CLOSE,
        b"HTTP/1.1 100 Continue\r\n\r\n" + HI,
        HI + CLOSE,
    ],
)
def test_bodies_of_every_framing(answer: bytes) -> None:
    assert answered([answer], get)[0] == Reply(200, b"hi")


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (CLOSE, "disconnect"),
        (OK + CLOSE, "disconnect"),
        (OK + b"Content-Length: 3\r\n\r\nhi" + CLOSE, "disconnect"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nh\r\n" + CLOSE, "disconnect"),
        (b"SSH-2.0\r\n", "malformed"),
        (OK + b"Content-Length: 3\r\n\r\nhi", "timeout"),
    ],
)
def test_answers_that_do_not_come(answer: bytes, kind: str) -> None:
    with pytest.raises(AnswerError) as caught:
        answered([answer], get, timeout_s=0.2 if kind == "timeout" else 30.0)
    assert caught.value.kind == kind


def test_nothing_listens() -> None:
    with pytest.raises(AnswerError, match=r"^connect: "):
        asyncio.run(Client(Target(False, "127.0.0.1", 1, "")).get("/"))


def test_a_connection_is_kept_unless_the_server_closes_it() -> None:
    async def twice(client: Client) -> list[Reply]:
        first = await client.get("/")
        await asyncio.sleep(0.02)
        return [first, await client.get("/")]

    hangs_up = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi"
    assert answered([HI, HI], twice)[1] == 1
    assert answered([hangs_up, HI], twice)[1] == 2
    assert answered([HI + CLOSE, HI], twice)[1] == 2


def test_streams_under_way_have_a_connection_each() -> None:
    async def at_once(client: Client) -> list[Reply]:
        return list(await asyncio.gather(*(client.get("/") for _ in range(5))))

    assert answered([HI] * 5, at_once) == ([Reply(200, b"hi")] * 5, 5)


def test_an_error_goes_to_the_caller_and_not_to_the_sink() -> None:
    whole = Whole()

    async def stream(client: Client) -> None:
        await client.stream("/", b"{}", whole)

    body = b'{"error": {"message": "too\\nmany"}}'
    with pytest.raises(AnswerError, match=r"^http 429: too many$"):
        answered([b"HTTP/1.1 429 No\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)], stream)
    assert whole.kept == b""


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"error": {"message": "a"}}, "a"),
        ({"error": "a"}, "a"),
        ({"message": "a"}, "a"),
        ({"detail": "a"}, "a"),
        ({"error": {"code": 1}}, "{'code': 1}"),
        ({}, None),
        ([], None),
    ],
)
def test_messages_of_errors(written: object, message: str | None) -> None:
    assert error_message(written) == message
