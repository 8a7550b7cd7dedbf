"""A server of one's own for the time of a block."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO

from twofold.clients.http import AnswerError, Client
from twofold.clients.target import Target
from twofold.errors import SpecError

SAID = "twofold: "
COMMAND = (sys.executable, "-P", "-m", "twofold", "serve")
HOST = "127.0.0.1"
POLL_S = 0.1
PATIENCE_S = 10.0


@contextmanager
def served(model: str, flags: Sequence[str] = (), command: Sequence[str] = COMMAND) -> Iterator[str]:
    """The URL of a ``twofold serve MODEL`` with ``flags`` that is ready, and that ends with the block.

    It is in a session of its own, so that an interrupt from the keyboard does not reach it. SpecError with its last
    words when it ends before it is ready.
    """
    port = free_port()
    arguments = [*command, model, *flags, "--host", HOST, "--port", str(port)]
    with tempfile.TemporaryFile() as words:
        server = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=words, stderr=words, start_new_session=True
        )
        try:
            url = f"http://{HOST}:{port}"
            while not asyncio.run(is_ready(url)):
                if server.poll() is not None:
                    raise refusal(model, last_line(words))
                time.sleep(POLL_S)
            yield url
        finally:
            end(server)


class RefusedError(SpecError):
    """What a server said for itself when it refused to start: ``accepted`` is that line whole."""

    def __str__(self) -> str:
        return self.accepted


def refusal(model: str, words: str) -> SpecError:
    """The error of a server of ``model`` that ended with these last ``words``."""
    if words.startswith(SAID):
        return RefusedError("MODEL", model, words.removeprefix(SAID))
    return SpecError("MODEL", model, f"accepted: a model that twofold serve can serve ({words})")


async def is_ready(url: str) -> bool:
    """Whether the server at ``url`` says that it is healthy."""
    client = Client(Target.parse(url), timeout_s=1.0)
    try:
        return (await client.get("/health")).status == 200
    except AnswerError:
        return False
    finally:
        await client.close()


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def last_line(words: IO[bytes]) -> str:
    """The last line that is not empty of what a process has said."""
    words.seek(0)
    lines = words.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


def end(server: "subprocess.Popen[bytes]") -> None:
    """Ask the server to end, and end all of its session when it does not within ``PATIENCE_S``."""
    server.terminate()
    try:
        server.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
