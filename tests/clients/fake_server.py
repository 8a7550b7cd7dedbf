"""An OpenAI-compatible server with known delays and known faults, for the tests: a process that says its port.

Model ``plain`` takes every field; ``strict`` none beyond OpenAI's own, ends early and counts only at the end; ``wordy``
begins every answer only after 60 s. A completion of 100 + K tokens fails in the K-th way of FAULTS.
"""

import asyncio
import json
import re
import socket
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

FIRST_S, GAP_S = 0.05, 0.01
EARLY = 3
BOS, LONG = 1, 6
FAULTS = ("400", "429", "500", "503", "disconnect", "error event", "not json", "empty", "hang")
STRANGE = {"strict": ("ignore_eos", "min_tokens", "continuous_usage_stats")}

seen: list[dict[str, Any]] = []
aborted: list[str] = []


def tokens_of(text: str) -> int:
    """Every word and every colon is a token, a word of more than LONG letters two; one more at the beginning."""
    return BOS + sum(1 + (len(word) > LONG) for word in re.findall(r"\w+|:", text))


def prompt_of(body: dict[str, Any]) -> str:
    return body["prompt"] if "prompt" in body else " ".join(message["content"] for message in body["messages"])


def refused(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": {"message": message, "type": "x", "code": status}}, status)


async def complete(request: Request) -> Response:
    body = await request.json()
    if request.headers.get("authorization") == "Bearer wrong":
        return refused(401, "this key is not known")
    options = body.get("stream_options", {})
    for field in STRANGE.get(body["model"], ()):
        if field in body or field in options:
            return refused(400, f"unknown field {field}")
    usage = {"prompt_tokens": tokens_of(prompt_of(body)), "completion_tokens": 0}
    if not body.get("stream"):
        return JSONResponse({"choices": [{"text": "a"}], "usage": usage})
    fault = FAULTS[body["max_tokens"] - 100] if 100 <= body["max_tokens"] < 100 + len(FAULTS) else None
    if fault is not None and fault.isdigit():
        return refused(int(fault), f"fault {fault}")
    record = {"body": body, "at": time.perf_counter(), "sent": []}
    seen.append(record)
    return StreamingResponse(stream(body, usage, record, fault), media_type="text/event-stream")


async def stream(body: dict[str, Any], usage: Any, record: Any, fault: str | None) -> AsyncIterator[bytes]:
    per_chunk = body["stream_options"].get("continuous_usage_stats", False)
    wanted = body.get("max_tokens", 6)
    tokens = min(wanted, EARLY) if body["model"] == "strict" else wanted
    try:
        await asyncio.sleep(60.0 if body["model"] == "wordy" else FIRST_S)
        if fault is not None:
            async for event in failing(fault):
                yield event
            return
        for number in range(tokens):
            if number:
                await asyncio.sleep(GAP_S)
            usage["completion_tokens"] += 1
            record["sent"].append(time.perf_counter())
            yield event_of(choice(body, f" w{number}", "length" if number == tokens - 1 else None), usage, per_chunk)
        yield event_of([], usage, True) + b"data: [DONE]\n\n"
    except asyncio.CancelledError:
        aborted.append(body["model"])
        raise


async def failing(fault: str) -> AsyncIterator[bytes]:
    yield b": a comment\n\n"
    if fault == "disconnect":
        raise RuntimeError("the connection is to break")
    if fault == "error event":
        yield b'data: {"error": {"message": "out of memory"}}\n\n'
    elif fault == "not json":
        yield b"data: {]\n\n"
    elif fault == "hang":
        await asyncio.sleep(60.0)
    yield b"data: [DONE]\n\n"


def choice(body: dict[str, Any], text: str, finish: str | None) -> list[dict[str, Any]]:
    said = {"text": text} if "prompt" in body else {"delta": {"content": text}}
    return [{"index": 0, **said, "finish_reason": finish}]


def event_of(choices: list[dict[str, Any]], usage: Any, with_usage: bool) -> bytes:
    chunk = {"id": "x", "choices": choices, "usage": usage if with_usage else None}
    return f"data: {json.dumps(chunk)}\n\n".encode()


async def models(_: Request) -> Response:
    return JSONResponse({"data": [{"id": name} for name in ("plain", "strict", "wordy")]})


async def health(_: Request) -> Response:
    return Response()


async def recall(_: Request) -> Response:
    answer = {"seen": list(seen), "aborted": list(aborted)}
    seen.clear()
    aborted.clear()
    return JSONResponse(answer)


ROUTES = [
    Route("/v1/completions", complete, methods=["POST"]),
    Route("/v1/chat/completions", complete, methods=["POST"]),
    Route("/v1/models", models),
    Route("/health", health),
    Route("/recall", recall),
]


def main() -> None:
    """Serve on a free port, or on the one after ``--port``."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    port = int(sys.argv[sys.argv.index("--port") + 1]) if "--port" in sys.argv else 0
    listening.bind(("127.0.0.1", port))
    listening.listen()
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(Starlette(routes=ROUTES), log_level="critical")).run(sockets=[listening])


if __name__ == "__main__":
    main()
