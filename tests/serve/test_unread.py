"""Clients that do not read."""

import asyncio
import json
import socket
import threading

from twofold.serve.unread import Unread

LOOKS_WITHIN_S = 20.0
LONG = json.dumps({"prompt": "a" * 400_000, "return_token_strs": True}).encode()
HOST = b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"


class Wire:
    """A transport that says how much is left to be read, and notes that it was cut."""

    def __init__(self, *left):
        self._left, self.cut = list(left), asyncio.Event()

    def get_write_buffer_size(self):
        return self._left.pop(0)

    def get_extra_info(self, name):
        return None

    def abort(self):
        self.cut.set()


def test_who_takes_nothing_is_left_and_who_takes_little_is_not():
    async def run():
        wire = Wire(10, 9, 1, 1, 0)
        Unread(wire, 0.01).watch()
        await asyncio.wait_for(wire.cut.wait(), LOOKS_WITHIN_S)
        assert wire.get_write_buffer_size() == 0

    asyncio.run(run())


def test_nothing_is_expected_of_who_has_read():
    async def run():
        wire, other = Wire(10), Wire(1, 1)
        unread = Unread(wire, 0.01)
        unread.watch()
        unread.rest()
        Unread(other, 0.05).watch()
        await asyncio.wait_for(other.cut.wait(), LOOKS_WITHIN_S)
        assert not wire.cut.is_set()

    asyncio.run(run())


def connected(server):
    """A connection that takes little before it is read from."""
    host, port = server.address.removeprefix("http://").split(":")
    connection = socket.socket()
    connection.settimeout(20)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
    connection.connect((host, int(port)))
    return connection


def test_a_client_that_reads_nothing_is_left(serving, wait):
    with serving(read_within_s=0.5) as server, connected(server) as connection:
        asking = threading.Thread(target=connection.sendall, args=((HOST % len(LONG) + LONG) * 4,))
        asking.start()
        wait(lambda: any(line["event"] == "answer not read" for line in server.log()), within_s=60)
        asking.join(20)
        assert server.complete("a").status_code == 200
