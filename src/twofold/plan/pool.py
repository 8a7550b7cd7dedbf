"""Where the simulations of a search run. The answer does not depend on it."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from twofold.errors import SpecError

Shared = TypeVar("Shared")
Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Pool(Protocol):
    """Runs tasks; ``map`` gives the answers in the order of the items, and raises what a task raises."""

    workers: int

    def map(self, function: Callable[[Shared, Item], Answer], shared: Shared, items: Sequence[Item]) -> list[Answer]:
        """``function(shared, item)`` for each item."""
        ...

    def close(self) -> None:
        """Give back what the pool holds."""
        ...


class Threads:
    """Threads of this process: compiled code runs without the interpreter's lock."""

    def __init__(self, workers: int = 1) -> None:
        if workers < 1:
            raise SpecError("workers", workers, "accepted: 1 or more")
        self.workers = workers
        self._executor = ThreadPoolExecutor(workers, thread_name_prefix="plan") if workers > 1 else None

    def map(self, function: Callable[[Shared, Item], Answer], shared: Shared, items: Sequence[Item]) -> list[Answer]:
        """See :class:`Pool`."""
        if self._executor is None:
            return [function(shared, item) for item in items]
        futures = [self._executor.submit(function, shared, item) for item in items]
        try:
            return [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()

    def close(self) -> None:
        """Wait for tasks in flight and end the threads."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)
