"""uvicorn with nothing behind it: it reads a body and answers with one event. Its port is the first line on output."""

import socket
from typing import Any

import uvicorn


async def answer(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """An ASGI application."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    await send({"type": "http.response.body", "body": b"data: {}\n\n", "more_body": True})
    await send({"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": False})


if __name__ == "__main__":
    # asyncio turns Nagle's algorithm off only where it sees the protocol.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(f"127.0.0.1:{listener.getsockname()[1]}", flush=True)
    config = uvicorn.Config(answer, ws="none", lifespan="off", log_config=None, access_log=False, loop="asyncio")
    uvicorn.Server(config).run([listener])
