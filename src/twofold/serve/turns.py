"""A few at a time: what comes in a crowd is taken in turns, so that all else on the event loop has its own between."""

import asyncio
from collections import deque
from collections.abc import Callable

from twofold.serve.protocol import Message

ITEMS_AT_ONCE = 32
"""An item is told to its client in some 50 us."""
REQUESTS_AT_ONCE = 4
"""A request is checked, tokenised and sent to the worker in some 500 us."""


class Handover:
    """Items of a worker on their way: those of one request that have come meanwhile go together, in order.

    So when tokens come faster than they can be told, each event tells more of them, and none waits for long.
    """

    def __init__(self, deliver: Callable[[list[Message]], None]) -> None:
        self._deliver = deliver
        self._waiting: dict[str, list[Message]] = {}
        self._is_next = False

    def put(self, items: list[Message]) -> None:
        """Take the items of a step, and hand over what can be now."""
        for item in items:
            self._waiting.setdefault(item["id"], []).append(item)
        if not self._is_next:
            self._hand_over()

    def _hand_over(self) -> None:
        room = ITEMS_AT_ONCE
        while self._waiting and room > 0:
            items = self._waiting.pop(next(iter(self._waiting)))
            room -= len(items)
            self._deliver(items)
        self._is_next = bool(self._waiting)
        if self._is_next:
            asyncio.get_running_loop().call_soon(self._hand_over)


class Gate:
    """Lets requests pass in the order in which they came, ``REQUESTS_AT_ONCE`` in each turn of the event loop."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._room, self._is_next = REQUESTS_AT_ONCE, False

    async def passed(self) -> None:
        """Wait for a turn; none when there is no crowd."""
        loop = asyncio.get_running_loop()
        if not self._is_next:
            self._is_next = True
            loop.call_soon(self._open)
        if self._room > 0:
            self._room -= 1
            return
        turn = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _open(self) -> None:
        self._room = REQUESTS_AT_ONCE
        while self._waiting and self._room > 0:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._room -= 1
        self._is_next = self._room < REQUESTS_AT_ONCE
        if self._is_next:
            asyncio.get_running_loop().call_soon(self._open)
