"""A worker process: the engine's forward loop, fed and read over ZeroMQ. Started as ``python -m twofold.serve.worker``.

Its arguments are the address of the HTTP process, the epoch that names it there, its settings as JSON, and that
process's id. It ends when told to, and when that process has ended, even while this one was starting. Signals that end
a service reach all of its processes: this one leaves it to the HTTP process to drain.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import zmq

from twofold.errors import SpecError
from twofold.serve.logs import log, logger, write_logs_to
from twofold.serve.protocol import ABORT, ADD, FATAL, OUT, STATS, STOP, Found, Item, Message, Ready, Stats, pack, unpack
from twofold.serve.settings import WorkerSettings

IDLE_POLL_MS = 200
STATS_EVERY_S = 0.1


class Runner(Protocol):
    """What the loop needs of an engine."""

    def about(self) -> Ready:
        """What is served."""

    def add(self, message: Message) -> None:
        """Take a request; SpecError when it cannot be run."""

    def abort(self, request: str) -> None:
        """End a request and free what it holds; nothing when it is unknown."""

    def step(self) -> list[Item]:
        """Run one step and give what the requests have got."""

    def has_work(self) -> bool:
        """Whether a step would do something."""

    def stats(self) -> Stats:
        """The state of the scheduler."""

    def close(self) -> None:
        """End the threads of the engine and the log of its decisions."""


Make = Callable[[WorkerSettings, Callable[[Found], None]], Runner]
"""Loads what the settings name; the second argument hears which files it has before its weights are read."""


class Loop:
    """Steps the engine while there is work, and listens between steps."""

    def __init__(self, runner: Runner, socket: "zmq.Socket[bytes]", parent: int) -> None:
        self._runner, self._socket, self._parent = runner, socket, parent
        self._told = 0.0
        self._stale = True
        self._running = True

    def run(self) -> None:
        """Until told to stop, or until nobody is there to listen."""
        while self._running and os.getppid() == self._parent:
            refused = self._listen(0 if self._runner.has_work() else IDLE_POLL_MS)
            items = self._runner.step() if self._runner.has_work() else []
            self._tell([*refused, *items])

    def _listen(self, wait_ms: int) -> list[Item]:
        """Take all messages that are there; the refusals of those that cannot be run."""
        refused: list[Item] = []
        while self._socket.poll(wait_ms):
            message = unpack(self._socket.recv())
            wait_ms = 0
            try:
                self._take(message)
            except SpecError as error:
                refused.append(
                    {"id": message["id"], "tokens": [], "finish": "error", "message": str(error), "refused": True}
                )
        return refused

    def _take(self, message: Message) -> None:
        op = message["op"]
        self._stale = True
        if op == ADD:
            self._runner.add(message)
        elif op == ABORT:
            self._runner.abort(message["id"])
        elif op == STATS:
            self._told = 0.0
        elif op == STOP:
            self._running = False

    def _tell(self, items: list[Item]) -> None:
        """Send items at once, stats now and then and after the last change."""
        now = time.monotonic()
        self._stale = self._stale or bool(items)
        due = self._stale and now - self._told >= STATS_EVERY_S
        if not items and not due:
            return
        message: dict[str, Any] = {"op": OUT, "items": items}
        if due:
            message["stats"] = self._runner.stats()
            self._told, self._stale = now, False
        self._socket.send(pack(message))


def main(arguments: Sequence[str], make: Make) -> int:
    """Run a worker and give its exit code: 0 when told to stop, 1 after a failure, which is sent as ``fatal``."""
    address, epoch, settings = arguments[0], arguments[1], WorkerSettings(**json.loads(arguments[2]))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    write_logs_to(sys.stderr, settings.log_level)
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.IDENTITY, epoch.encode())
    socket.setsockopt(zmq.LINGER, 1000)
    socket.set_hwm(0)
    socket.connect(address)
    try:
        runner = make(settings, lambda found: socket.send(pack(found)))
        socket.send(pack(runner.about()))
        Loop(runner, socket, int(arguments[3])).run()
        runner.close()
    except SpecError as error:
        socket.send(pack({"op": FATAL, "message": str(error), "refused": True}))
        return 1
    except Exception as error:
        logger.exception("worker failed")
        socket.send(pack({"op": FATAL, "message": f"the worker failed: {type(error).__name__}"}))
        return 1
    finally:
        socket.close()
        context.term()
    return 0


def _runner(settings: WorkerSettings, found: Callable[[Found], None]) -> Runner:
    from twofold.serve.runner import EngineRunner

    began = time.monotonic()
    runner = EngineRunner(settings, found)
    log("model loaded", model=settings.model, seconds=round(time.monotonic() - began, 3))
    return runner


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], _runner))
