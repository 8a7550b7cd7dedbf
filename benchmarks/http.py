"""The server around the engine: what HTTP adds to a TTFT, and how fast /health answers while a prompt is computed."""

import argparse
import contextlib
import http.client
import json
import select
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import print_table, verdict

HERE = Path(__file__).parents[1] / "tests" / "serve"
NO_TIME = (sys.executable, str(HERE / "fake_worker.py"), "0", "0")
ENGINE = (sys.executable, "-m", "twofold.serve.worker")
START_WITHIN_S, ANSWER_WITHIN_S = 180.0, 300.0
HEADER = ("measured", "n", "median ms", "P99 ms", "goal")
ADDED_GOAL_MS, HEALTH_GOAL_MS = 2.0, 50.0
HEALTH_EVERY_S = 0.02


@contextlib.contextmanager
def served(model: str, worker: tuple[str, ...]) -> Iterator[str]:
    """The host and port of a server with this worker."""
    settings = {"port": 0, "served_name": "m", "worker_command": worker, "worker": {"model": model}}
    command = [sys.executable, str(HERE / "serving.py"), json.dumps(settings)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        if not select.select([process.stdout], [], [], START_WITHIN_S)[0]:
            raise TimeoutError("the server did not start")
        yield process.stdout.readline().strip().removeprefix("http://")
    finally:
        process.kill()
        process.wait(20)


def connected(place: str) -> http.client.HTTPConnection:
    """A connection that is open, so that opening it is not measured."""
    connection = http.client.HTTPConnection(place, timeout=ANSWER_WITHIN_S)
    connection.connect()
    return connection


def ttft_s(connection: http.client.HTTPConnection, body: dict[str, Any]) -> float:
    """Seconds from sending a request to its first event."""
    data = json.dumps(body | {"stream": True})
    began = time.perf_counter()
    connection.request("POST", "/v1/completions", data, {"Content-Type": "application/json"})
    reply = connection.getresponse()
    if reply.status != 200:
        raise RuntimeError(reply.read().decode())
    reply.readline()
    seconds = time.perf_counter() - began
    reply.read()
    return seconds


def added(place: str, rate: float, requests: int, characters: int) -> list[float]:
    """TTFTs at a steady rate of a worker that takes no time."""
    connection, begin = connected(place), time.perf_counter()
    body = {"prompt": "a word " * (characters // 7), "max_tokens": 1}
    ttft_s(connection, body)
    times = []
    for number in range(requests):
        time.sleep(max(begin + number / rate - time.perf_counter(), 0.0))
        times.append(ttft_s(connection, body))
    return times


def health(place: str, prompt_tokens: int) -> list[float]:
    """Times of /health while a prompt is computed."""
    body = {"prompt": list(range(100, 100 + prompt_tokens)), "max_tokens": 1}
    prompt = threading.Thread(target=ttft_s, args=(connected(place), body))
    connection = connected(place)
    prompt.start()
    times = []
    while prompt.is_alive():
        began = time.perf_counter()
        connection.request("GET", "/health")
        connection.getresponse().read()
        times.append(time.perf_counter() - began)
        time.sleep(HEALTH_EVERY_S)
    prompt.join(ANSWER_WITHIN_S)
    return times


def row(name: str, times: list[float], judged: float, goal_ms: float) -> list[str]:
    """A row of the table; ``judged`` is the time that has the goal."""
    p99 = statistics.quantiles(times, n=100, method="inclusive")[98] if len(times) > 1 else times[0]
    goal = f"{goal_ms:.0f} {verdict(judged * 1e3 < goal_ms)}"
    return [name, str(len(times)), f"{statistics.median(times) * 1e3:.2f}", f"{p99 * 1e3:.2f}", goal]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one row a measurement."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.http", description=__doc__)
    parser.add_argument("tokenizer", help="a folder with a tokenizer.json, for the worker that takes no time")
    parser.add_argument("--model", default="smollm2", help="what computes the long prompt")
    parser.add_argument("--rate", type=float, default=10.0, help="requests a second")
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--prompt-tokens", type=int, default=2000)
    options = parser.parse_args(arguments)
    with served(options.tokenizer, NO_TIME) as place:
        times = added(place, options.rate, options.requests, 1000)
    rows = [row("TTFT of a worker that takes no time", times, statistics.median(times), ADDED_GOAL_MS)]
    with served(options.model, ENGINE) as place:
        times = health(place, options.prompt_tokens)
    ordered = sorted(times)
    rows.append(row("/health while a prompt is computed", times, ordered[int(len(ordered) * 0.99)], HEALTH_GOAL_MS))
    print_table(HEADER, rows)


if __name__ == "__main__":
    main()
