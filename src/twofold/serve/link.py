"""The HTTP process's side of a worker: starts it, talks to it, starts it anew when it dies, and stops it.

Every start is an epoch with a socket identity of its own, so that what a dead worker still had in its pipe is not
taken for news of the living one.
"""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import cast

from twofold.engine.environment import surrounded
from twofold.serve.errors import UNAVAILABLE, ApiError, ServeError
from twofold.serve.flight import Flight, Flights
from twofold.serve.logs import log, logger
from twofold.serve.place import Place
from twofold.serve.protocol import ABORT, FATAL, FOUND, OUT, READY, STOP, Found, Message, Ready, Stats, pack, unpack
from twofold.serve.settings import WORKER_MODULE, Settings
from twofold.serve.turns import Handover
from twofold.serve.wire import Wire

STOP_WITHIN_S = 5.0
FORGIVEN_AFTER_S = 300.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 10.0
STANDARD_ERROR = 2


class WorkerLink:
    """One worker process and its flights.

    ``state`` is ``loading``, ``ready``, ``restarting`` or ``stopped``. ``on_found`` and ``on_ready`` are called at each
    start of a worker, ``on_stats`` with each report of its scheduler, ``on_restart`` when one has died.
    """

    def __init__(
        self,
        settings: Settings,
        on_found: Callable[[Found], None],
        on_ready: Callable[[Ready], None],
        on_stats: Callable[[Stats], None],
        on_restart: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._on_found, self._on_ready, self._on_stats, self._on_restart = on_found, on_ready, on_stats, on_restart
        self._place = Place()
        self._flights = Flights()
        self._handover = Handover(self._flights.deliver)
        self._process: asyncio.subprocess.Process | None = None
        self._epoch, self._deaths = 0, list[float]()
        self._failure = self._refusal = ""
        self._refused = False
        self.state = "loading"

    async def run(self) -> None:
        """Keep a worker running until cancelled or stopped; ServeError when none will run."""
        self._wire = Wire(self._place.address, self._take)
        try:
            while self.state != "stopped":
                await self._one_epoch()
        finally:
            self.kill()
            self.state = "stopped"
            self._wire.close()
            self._place.close()

    def submit(self, flight: Flight) -> None:
        """Send a flight to the worker: now, or as soon as there is one."""
        self._flights.add(flight)
        if self.state == "ready":
            self._send(flight.message())

    def abort(self, flight: Flight) -> None:
        """End a flight at once; nothing more comes for it. A flight that has ended is left alone."""
        if self._flights.remove(flight) and self.state == "ready":
            self._send({"op": ABORT, "id": flight.id})

    def dismiss(self) -> None:
        """Say of every flight that the server stops."""
        self._flights.fail_all(ApiError(503, "the server is stopping", kind=UNAVAILABLE, code="stopping"))

    async def stop(self) -> None:
        """Ask the worker to end, and make it end after a while."""
        self.state, ready = "stopped", self.state == "ready"
        self.dismiss()
        process = self._process
        if process is None or process.returncode is not None:
            return
        if ready:
            self._send({"op": STOP})
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), STOP_WITHIN_S)
        self.kill()

    def refuse(self, message: str) -> None:
        """End the service, as what the worker has cannot be served; :meth:`run` raises ServeError with ``message``."""
        self._refusal = message
        self.kill()

    def kill(self) -> None:
        """End the worker without a word."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def _one_epoch(self) -> None:
        """Start a worker and wait for its end; then say what becomes of its flights."""
        self._epoch += 1
        self._process = await asyncio.create_subprocess_exec(
            *self._command(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=STANDARD_ERROR,
            env=worker_environment(self._settings.worker.threads),
        )
        code = await self._process.wait()
        await self._drain()
        if self.state == "stopped":
            return
        if self.state == "loading" or self._refusal:
            message = self._refusal or self._failure or f"the worker ended with code {code} before it was ready"
            self._give_up(message, refused=self._refused or bool(self._refusal))
        self.state = "restarting"
        log("worker lost", epoch=self._epoch, exit_code=code, message=self._failure)
        self._on_restart()
        self._flights.lose_worker()
        await asyncio.sleep(self._pause_s())

    def _command(self) -> list[str]:
        program = self._settings.worker_command or (sys.executable, "-P", "-m", WORKER_MODULE)
        return [
            *program,
            self._place.address,
            str(self._epoch),
            json.dumps(asdict(self._settings.worker)),
            str(os.getpid()),
        ]

    def _pause_s(self) -> float:
        """How long to wait before the next start, longer after each death of late; ServeError after too many."""
        now = asyncio.get_running_loop().time()
        self._deaths = [death for death in self._deaths if now - death < FORGIVEN_AFTER_S] + [now]
        if len(self._deaths) > self._settings.restarts:
            self._give_up(f"the worker died {len(self._deaths)} times; {self._failure}".rstrip("; "))
        return min(FIRST_PAUSE_S * 2.0 ** (len(self._deaths) - 1), LONGEST_PAUSE_S)

    def _give_up(self, message: str, *, refused: bool = False) -> None:
        self.state = "stopped"
        self._flights.fail_all(ApiError(503, "the server has no worker", kind=UNAVAILABLE, code="no_worker"))
        raise ServeError(message, refused=refused)

    async def _drain(self) -> None:
        """Give what the worker said last a moment to arrive."""
        await asyncio.sleep(0.05)

    def _take(self, identity: bytes, data: bytes) -> None:
        """Handle a message; one that cannot be read or handled goes to the log and harms nothing else."""
        if identity == str(self._epoch).encode():
            try:
                self._handle(unpack(data))
            except Exception:
                logger.exception("message not understood")

    def _handle(self, message: Message) -> None:
        op = message["op"]
        if op == OUT:
            self._handover.put(message["items"])
            if message.get("stats") is not None:
                self._on_stats(message["stats"])
        elif op == FOUND:
            self._on_found(cast("Found", message))
        elif op == READY and self.state != "stopped":
            self.state, self._failure = "ready", ""
            self._on_ready(cast("Ready", message))
            for waiting in self._flights.messages():
                self._send(waiting)
        elif op == FATAL:
            self._failure, self._refused = str(message["message"]), message.get("refused", False)

    def _send(self, message: Message) -> None:
        self._wire.send(str(self._epoch).encode(), pack(message))


def worker_environment(threads: int | None) -> dict[str, str]:
    """The environment of a worker: that of this process with what its engine wants."""
    return surrounded(os.environ) | ({} if threads is None else {"OMP_NUM_THREADS": str(threads)})
