"""Many requests (TWOFOLD_FAULTS says how many) with all that clients do wrong, against the engine and a tiny model."""

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys

import httpx
import pytest

pytest.importorskip("torch")

REQUESTS, AT_ONCE, PROMPTS = int(os.environ.get("TWOFOLD_FAULTS", "1000")), 32, 6
ALL_WITHIN_S = 300
MALFORMED = (b"", b"{", b'{"prompt": 5}', b"[" * 5000, b'{"prompt": "x", "nonsense": 1}', b"\xff\xff")


def asked(number):
    """A request whose answer is known from asking it alone."""
    return {"prompt": [7 + number] * (3 + 9 * number), "max_tokens": 4 + number, "temperature": 0, "ignore_eos": True}


class Clients:
    """Sends requests of all kinds; ``right`` counts the good ones that got their answer."""

    def __init__(self, address, answers):
        self._address, self._answers = address, answers
        self._dice = random.Random(5)
        self._gate = asyncio.Semaphore(AT_ONCE)
        self.right = self.refused = 0

    async def run(self):
        limits = httpx.Limits(max_connections=AT_ONCE)
        async with httpx.AsyncClient(base_url=self._address, timeout=60, trust_env=False, limits=limits) as self._http:
            kinds = [self.good, self.streamed, self.malformed, self.oversized, self.dropped, self.slow, self.late]
            chosen = [self._dice.choices(kinds, weights=[6, 4, 2, 1, 3, 1, 1])[0] for _ in range(REQUESTS)]
            async with asyncio.timeout(ALL_WITHIN_S):
                await asyncio.gather(*(self._one(kind) for kind in chosen))

    async def _one(self, kind):
        async with self._gate:
            await kind(self._dice.randrange(PROMPTS))

    async def good(self, number):
        reply = await self._http.post("/v1/completions", json={**asked(number), "return_token_ids": True})
        assert reply.status_code == 200, reply.text
        assert reply.json()["choices"][0]["token_ids"] == self._answers[number]
        self.right += 1

    async def streamed(self, number):
        body = {**asked(number), "return_token_ids": True, "stream": True}
        tokens = []
        async with self._http.stream("POST", "/v1/completions", json=body) as reply:
            async for line in reply.aiter_lines():
                if line.startswith("data: {"):
                    tokens += json.loads(line.removeprefix("data: "))["choices"][0]["token_ids"]
        assert tokens == self._answers[number]
        self.right += 1

    async def malformed(self, number):
        headers = {"content-type": "application/json"}
        reply = await self._http.post("/v1/completions", content=MALFORMED[number], headers=headers)
        assert reply.status_code == 400
        self.refused += 1

    async def oversized(self, number):
        reply = await self._http.post("/v1/completions", json={"prompt": [1] * (600 + number)})
        assert reply.status_code == 400
        self.refused += 1

    async def dropped(self, number):
        _, writer = await self._send({**asked(number), "max_tokens": 150, "stream": number % 2 == 0})
        await asyncio.sleep(self._dice.random() * 0.05)
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def slow(self, number):
        reader, writer = await self._send({**asked(number), "stream": True, "return_token_ids": True})
        data = b""
        while b"[DONE]" not in data:
            got = await asyncio.wait_for(reader.read(200), 30)
            assert got, "the stream ended early"
            data += got
            await asyncio.sleep(0.002)
        writer.close()
        await writer.wait_closed()
        events = [json.loads(line.removeprefix(b"data: ")) for line in data.splitlines() if line.startswith(b"data: {")]
        tokens = [token for event in events for token in event["choices"][0]["token_ids"]]
        assert tokens == self._answers[number]
        self.right += 1

    async def late(self, number):
        body = {**asked(number), "max_tokens": 150, "deadline_s": 0.001}
        assert (await self._http.post("/v1/completions", json=body)).status_code == 408
        self.refused += 1

    async def _send(self, body):
        host, port = self._address.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        data = json.dumps(body).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"
        writer.write(head.encode() + data)
        await writer.drain()
        return reader, writer


@pytest.fixture
def server(serving, tiny):
    worker = {"model": str(tiny), "memory_bytes": 1 << 19, "requests": 600}
    command = [sys.executable, "-m", "twofold.serve.worker"]
    with serving(worker=worker, worker_command=command) as server:
        yield server


def answer(server, number):
    return server.complete(**asked(number), return_token_ids=True).json()["choices"][0]["token_ids"]


def idle(server):
    names = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")
    return all(server.metric(name) == 0 for name in names)


async def ends(http, number, stream):
    """The tokens of a request, or the code of the error with which it has ended."""
    body = {**asked(number), "max_tokens": 150, "return_token_ids": True, "stream": stream}
    reply = await http.post("/v1/completions", json=body)
    if not stream:
        whole = reply.json()
        return whole["error"]["code"] if reply.status_code == 503 else whole["choices"][0]["token_ids"]
    lines = [line.removeprefix("data: ") for line in reply.text.splitlines() if line]
    assert lines.pop() == "[DONE]"
    events = [json.loads(line) for line in lines]
    if "error" in events[-1]:
        return events[-1]["error"]["code"]
    return [token for event in events for token in event["choices"][0]["token_ids"]]


def test_a_killed_worker_leaves_no_request_open(server, wait):
    def worker():
        command = ["pgrep", "-P", str(server.process.pid)]
        return int(subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout)

    async def run():
        async with httpx.AsyncClient(base_url=server.address, timeout=90, trust_env=False) as http:
            jobs = [asyncio.ensure_future(ends(http, n % PROMPTS, n % 2 == 0)) for n in range(16)]
            async with asyncio.timeout(60):
                while server.metric("vllm:generation_tokens_total") < 40:
                    await asyncio.sleep(0.01)
                os.kill(worker(), signal.SIGKILL)
            async with asyncio.timeout(ALL_WITHIN_S):
                return await asyncio.gather(*jobs)

    ended = asyncio.run(run())
    assert "worker_lost" in ended
    assert all(each == "worker_lost" or len(each) == 150 for each in ended)
    assert server.metric("twofold:worker_restarts_total") == 1
    wait(lambda: server.http.get("/health").status_code == 200, within_s=120)
    wait(lambda: idle(server))
    assert len(answer(server, 0)) == 4


def test_nothing_leaks_and_the_rest_is_right(server, wait):
    answers = [answer(server, number) for number in range(PROMPTS)]
    clients = Clients(server.address, answers)
    asyncio.run(clients.run())
    assert clients.right > REQUESTS / 2
    assert clients.refused > REQUESTS / 8
    wait(lambda: idle(server))
    assert server.metric("twofold:worker_restarts_total") == 0
    assert answer(server, 0) == answers[0]
    assert not [line for line in server.log() if line["level"] not in ("info", "warning")]
