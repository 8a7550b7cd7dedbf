"""Servers to measure as processes of their own, and what loads them."""

import contextlib
import http.client
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
SERVING = HERE.parent / "tests" / "serve" / "serving.py"
START_WITHIN_S, ANSWER_WITHIN_S = 180.0, 300.0
COMPLETIONS = "/v1/completions"
HEAVY = b'{"prompt":[' + b",".join([b"[]"] * 800_000) + b"]}"


class Place(NamedTuple):
    """Host with port of a server, and the id of its HTTP process."""

    address: str
    pid: int

    def cpu_s(self) -> float | None:
        """CPU-seconds of its HTTP process so far; None where the system does not tell."""
        path = Path(f"/proc/{self.pid}/stat")
        if not path.exists():
            return None
        user, system = path.read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def started(*command: str) -> Iterator[Place]:
    """A process whose first line on standard output is its address."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        if not select.select([process.stdout], [], [], START_WITHIN_S)[0]:
            raise TimeoutError("the server did not start")
        yield Place(process.stdout.readline().strip().removeprefix("http://"), process.pid)
    finally:
        process.kill()
        process.wait(20)


def served(model: str, worker: tuple[str, ...]) -> contextlib.AbstractContextManager[Place]:
    """A server with this worker."""
    settings = {"port": 0, "served_name": "m", "worker_command": worker, "worker": {"model": model}, "max_queue": 1000}
    return started(sys.executable, "-P", str(SERVING), json.dumps(settings))


def bare() -> contextlib.AbstractContextManager[Place]:
    """uvicorn with nothing behind it."""
    return started(sys.executable, "-P", str(HERE / "bare_server.py"))


def connected(place: Place) -> http.client.HTTPConnection:
    """A connection that is open, so that opening it is not measured."""
    connection = http.client.HTTPConnection(place.address, timeout=ANSWER_WITHIN_S)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def first_line_s(connection: http.client.HTTPConnection, path: str, body: dict[str, Any] | None) -> float:
    """Seconds from sending a request to the first line of its answer, which is the first event of a stream."""
    data = None if body is None else json.dumps(body)
    began = time.perf_counter()
    connection.request("GET" if data is None else "POST", path, data, {"Content-Type": "application/json"})
    reply = connection.getresponse()
    if reply.status != 200:
        raise RuntimeError(reply.read().decode())
    reply.readline()
    seconds = time.perf_counter() - began
    reply.read()
    return seconds


def steadily(place: Place, path: str, body: dict[str, Any] | None, rate: float, requests: int) -> list[float]:
    """The times of requests at a steady rate on one connection, after one that does not count."""
    connection = connected(place)
    first_line_s(connection, path, body)
    begin, times = time.perf_counter(), []
    for number in range(requests):
        time.sleep(max(begin + number / rate - time.perf_counter(), 0.0))
        times.append(first_line_s(connection, path, body))
    connection.close()
    return times


def stream(place: Place, body: dict[str, Any]) -> None:
    """One stream, read to its end."""
    connection = connected(place)
    first_line_s(connection, COMPLETIONS, body | {"stream": True})
    connection.close()


def heavy(place: Place) -> None:
    """One body that takes long to read and is refused."""
    connection = connected(place)
    connection.request("POST", COMPLETIONS, HEAVY, {"Content-Type": "application/json"})
    reply = connection.getresponse()
    reply.read()
    if reply.status not in (400, 413):
        raise RuntimeError(f"{reply.status} for a body that is no request")
    connection.close()


class Asked(threading.Thread):
    """A thread that makes one request; :meth:`ended` waits for it and raises what it raised."""

    def __init__(self, ask: Any, *arguments: Any) -> None:
        super().__init__(daemon=True)
        self._ask, self._arguments = ask, arguments
        self._error: Exception | None = None

    def run(self) -> None:
        """Called by the thread."""
        try:
            self._ask(*self._arguments)
        except Exception as error:
            self._error = error

    def ended(self) -> None:
        """Wait for the end."""
        self.join(ANSWER_WITHIN_S)
        if self.is_alive():
            raise TimeoutError("a request has no answer")
        if self._error is not None:
            raise self._error


def health_while(place: Place, asked: list[Asked]) -> list[float]:
    """Times of /health while these run."""
    command = [sys.executable, "-P", str(HERE / "health_probe.py"), place.address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as probe:
        try:
            assert probe.stdout is not None
            if not select.select([probe.stdout], [], [], START_WITHIN_S)[0]:
                raise TimeoutError("the probe did not start")
            probe.stdout.readline()
            for each in asked:
                each.start()
            for each in asked:
                each.ended()
            times: list[float] = json.loads(probe.communicate("enough", timeout=ANSWER_WITHIN_S)[0])
        finally:
            probe.kill()
    return times
