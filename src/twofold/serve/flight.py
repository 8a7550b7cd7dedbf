"""One generation under way between the HTTP process and a worker."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from twofold.serve.errors import UNAVAILABLE, ApiError
from twofold.serve.protocol import ADD, Item, Message


@dataclass(eq=False)
class Flight:
    """A prompt (token ids) with its parameters (plain values), whose items a worker puts into ``inbox``.

    Several flights of one HTTP request share an inbox. ``bound_by`` is the field that says what the answer must spell,
    if one does. ``received`` counts the tokens that have come, ``resent`` says that the worker was lost once before the
    first.
    """

    id: str
    index: int
    prompt: list[int]
    params: dict[str, Any]
    inbox: "asyncio.Queue[Arrival]" = field(repr=False)
    priority: int = 0
    deadline_s: float | None = None
    bound_by: str | None = None
    received: int = 0
    resent: bool = False

    def message(self) -> Message:
        """What the worker is told."""
        return {
            "op": ADD,
            "id": self.id,
            "tokens": self.prompt,
            "params": self.params,
            "priority": self.priority,
            "deadline_s": self.deadline_s,
        }

    def deliver(self, item: Item | ApiError) -> None:
        """Hand over what has come for this flight: tokens, or the error that ends it."""
        if not isinstance(item, ApiError):
            self.received += len(item["tokens"])
        self.inbox.put_nowait(Arrival(self, item))


class Arrival(NamedTuple):
    """Something that came for a flight."""

    flight: Flight
    item: Item | ApiError


class Flights:
    """The flights of one worker, by id; knows which survive the loss of the worker."""

    def __init__(self) -> None:
        self._flights: dict[str, Flight] = {}

    def __len__(self) -> int:
        return len(self._flights)

    def add(self, flight: Flight) -> None:
        """Take a flight up."""
        self._flights[flight.id] = flight

    def remove(self, flight: Flight) -> bool:
        """Forget a flight; False when it was not there, because it has ended."""
        return self._flights.pop(flight.id, None) is not None

    def deliver(self, items: list[Message]) -> None:
        """Hand out the items of a step; an item for a flight that has ended is ignored."""
        for item in items:
            flight = self._flights.get(item["id"])
            if flight is not None:
                if item["finish"] is not None:
                    del self._flights[flight.id]
                flight.deliver(cast("Item", item))

    def fail_all(self, error: ApiError) -> None:
        """End every flight with ``error``."""
        flights, self._flights = self._flights, {}
        for flight in flights.values():
            flight.deliver(error)

    def lose_worker(self) -> None:
        """End the flights that have tokens, and those that lost a worker before; the rest can be sent again."""
        for flight in list(self._flights.values()):
            if flight.received or flight.resent:
                del self._flights[flight.id]
                flight.deliver(worker_lost())
            flight.resent = True

    def messages(self) -> list[Message]:
        """What a new worker is told."""
        return [flight.message() for flight in self._flights.values()]


def worker_lost() -> ApiError:
    """The error of a request whose worker stopped while it was answered."""
    return ApiError(
        503, "the worker stopped while answering; send the request again", kind=UNAVAILABLE, code="worker_lost"
    )
