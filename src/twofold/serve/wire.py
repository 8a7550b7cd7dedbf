"""The HTTP process's end of the socket to its worker, read as soon as something is there."""

import asyncio
from collections.abc import Callable
from typing import cast

import zmq

AT_ONCE = 8
"""Messages that are taken before others have their turn on the event loop."""


class Wire:
    """Sends at once and never waits; ``heard`` gets the identity of the sender and the data of each message.

    It needs a running event loop.
    """

    def __init__(self, address: str, heard: Callable[[bytes, bytes], None]) -> None:
        self._heard = heard
        self._loop = asyncio.get_running_loop()
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.set_hwm(0)
        self._socket.bind(address)
        self._descriptor = cast("int", self._socket.getsockopt(zmq.FD))
        self._loop.add_reader(self._descriptor, self._read)

    def send(self, identity: bytes, data: bytes) -> None:
        """Send to one worker; nothing when it is not there."""
        self._socket.send_multipart([identity, data])
        self._look_again()

    def close(self) -> None:
        """Send and hear nothing more."""
        self._loop.remove_reader(self._descriptor)
        self._socket.close(linger=0)
        self._context.term()

    def _read(self) -> None:
        if self._socket.closed:
            return
        for _ in range(AT_ONCE):
            try:
                identity, data = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._heard(identity, data)
        self._look_again()

    def _look_again(self) -> None:
        """The descriptor tells of each message once, and sending may use that up."""
        if cast("int", self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            self._loop.call_soon(self._read)
