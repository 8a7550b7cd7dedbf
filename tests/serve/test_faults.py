"""Many requests (TWOFOLD_FAULTS says how many) with all that clients do wrong, against the engine and a tiny model."""

import asyncio
import contextlib
import json
import os
import random
import sys

import httpx
import pytest

pytest.importorskip("torch")

REQUESTS, AT_ONCE, PROMPTS = int(os.environ.get("TWOFOLD_FAULTS", "200")), 32, 6
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
            await asyncio.gather(*(self._one(kind) for kind in chosen))

    async def _one(self, kind):
        async with self._gate:
            await kind(self._dice.randrange(PROMPTS))

    async def good(self, number):
        reply = await self._http.post("/v1/completions", json={**asked(number), "return_token_ids": True})
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
        reply = await self._http.post("/v1/completions", json={"prompt": [1] * (300 + number)})
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
            data += await reader.read(200)
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


def test_nothing_leaks_and_the_rest_is_right(serving, tiny, wait):
    worker = {"model": str(tiny), "memory_bytes": 1 << 19, "requests": 600}
    command = [sys.executable, "-m", "twofold.serve.worker"]
    with serving(worker=worker, worker_command=command) as server:
        answers = [
            server.complete(**asked(n), return_token_ids=True).json()["choices"][0]["token_ids"] for n in range(PROMPTS)
        ]
        clients = Clients(server.address, answers)
        asyncio.run(clients.run())
        assert clients.right > REQUESTS / 2
        assert clients.refused > REQUESTS / 8
        wait(lambda: server.metric("vllm:kv_cache_usage_perc") == 0)
        wait(lambda: server.metric("vllm:num_requests_running") + server.metric("vllm:num_requests_waiting") == 0)
        assert server.metric("twofold:worker_restarts_total") == 0
        assert server.complete(**asked(0), return_token_ids=True).json()["choices"][0]["token_ids"] == answers[0]
        assert not [line for line in server.log() if line["level"] not in ("info", "warning")]
