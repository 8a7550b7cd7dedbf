"""Leaving clients that do not read their answers, which would hold memory and a connection for ever."""

import asyncio
import contextlib
import fcntl
import socket
import sys
import termios

from twofold.serve.logs import log


class Unread:
    """Watches one connection while bytes wait to be read; it is cut where none is taken for ``within_s`` seconds."""

    def __init__(self, transport: asyncio.Transport, within_s: float) -> None:
        self._transport, self._within_s = transport, within_s
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """From now on."""
        self._look_later(self._waiting())

    def rest(self) -> None:
        """Expect nothing of the client."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_later(self, waiting: int) -> None:
        self.rest()
        self._timer = asyncio.get_running_loop().call_later(self._within_s, self._look, waiting)

    def _look(self, before: int) -> None:
        waiting = self._waiting()
        if waiting < before:
            self._look_later(waiting)
        else:
            log("answer not read", bytes=waiting)
            self._transport.abort()

    def _waiting(self) -> int:
        """Bytes that the client has not taken: here, and in the kernel, which tells late that it has room again."""
        waiting = self._transport.get_write_buffer_size()
        connection: socket.socket | None = self._transport.get_extra_info("socket")
        if connection is not None:
            with contextlib.suppress(OSError, ValueError):
                told = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4))
                waiting += int.from_bytes(told, sys.byteorder)
        return waiting
