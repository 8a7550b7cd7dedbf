"""The simulations of a search on the CPUs of a Ray cluster. Only this module knows Ray, which is an extra.

It connects to a cluster that runs already, and starts none. A task is one deployment: a second of work or more, against
about a millisecond that Ray takes to send it. What all tasks of a search share is sent once.
"""

import logging
import os
import pickle
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, NamedTuple

from twofold.errors import SpecError
from twofold.plan.cache import CODE
from twofold.plan.examine import Question
from twofold.plan.pool import Answer, Item, Shared
from twofold.spec import catalog

FORMS = "accepted: auto, HOST:PORT or ray://HOST:PORT"
PATTERN = re.compile(r"(?:ray://)?(?:\[(?P<ipv6>[\da-fA-F:.]+)\]|(?P<host>[\w.-]+)):(?P<port>\d{1,5})")
PATIENCE_S = 5.0
NOT_IMPORTED = "failed to import on the worker"


class Sent(NamedTuple):
    """What all tasks of a search share, on its way to the workers.

    ``code`` is that of the sender; ``content`` its catalogs and the shared object, pickled here and not by Ray, whose
    arrays would be read-only: another type to Numba.
    """

    code: str
    content: bytes


class RayPool:
    """The workers of the Ray cluster at ``address``: ``auto``, ``HOST:PORT`` or ``ray://HOST:PORT``; see ``Pool``.

    ``auto`` is the cluster that this process is connected to, else the one of RAY_ADDRESS or of this machine. Twofold
    must be installed on every node. Each worker compiles into the cache folder of its own machine, and asks without
    the cache of earlier searches. SpecError where Ray is not installed, and where no cluster answers.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._ray = _imported(address)
        self._connected = not self._ray.is_initialized()
        self._sent: tuple[object, Any] | None = None
        self._connect()
        self.workers = int(self._ray.cluster_resources().get("CPU", 0))
        if self.workers < 1:
            self.close()
            raise SpecError("ray", address, "accepted: a cluster with at least one CPU for tasks")
        self._answer = self._ray.remote(num_cpus=1)(answer)

    def map(self, function: Callable[[Shared, Item], Answer], shared: Shared, items: Sequence[Item]) -> list[Answer]:
        """See ``Pool``; SpecError as well when the workers cannot run the tasks."""
        try:
            return self._answers(function, self._send(shared), items)
        except self._ray.exceptions.RayTaskError as error:
            raise self._cause(error) from error
        except self._ray.exceptions.RayError as error:
            raise SpecError("ray", self.address, f"its workers failed: {_first_line(error)}") from error

    def close(self) -> None:
        """Disconnect, unless the process was connected before."""
        self._sent = None
        if self._connected and self._ray.is_initialized():
            self._ray.shutdown()

    def _connect(self) -> None:
        if not self._connected:
            if self.address != "auto":
                raise SpecError("ray", self.address, "this process is connected to Ray already; accepted: auto")
            return
        _check_reachable(self.address)
        try:
            self._ray.init(address=self.address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, RuntimeError, ValueError, ImportError) as error:
            raise SpecError("ray", self.address, f"accepted: a cluster that runs ({_first_line(error)})") from error

    def _answers(self, function: Callable[[Any, Item], Answer], sent: Any, items: Sequence[Item]) -> list[Answer]:
        tasks: list[Any] = []
        try:
            tasks.extend(self._answer.remote(function, sent, item) for item in items)
            return [self._ray.get(task) for task in tasks]
        except BaseException:
            self._cancel(tasks)
            raise

    def _cancel(self, tasks: list[Any]) -> None:
        """End what has no answer yet; to cancel a task as it ends may crash Ray (its pull request 54785)."""
        if tasks:
            _, left = self._ray.wait(tasks, num_returns=len(tasks), timeout=0)
            for task in left:
                self._ray.cancel(task)

    def _send(self, shared: object) -> Any:
        """A reference to ``shared`` on the cluster, put there when it is not what was sent last."""
        if self._sent is None or self._sent[0] is not shared:
            content = self._ray.cloudpickle.dumps((catalog.opened(), _portable(shared)))
            self._sent = shared, self._ray.put(Sent(CODE, content))
        return self._sent[1]

    def _cause(self, error: Any) -> BaseException:
        """What a task has raised."""
        if NOT_IMPORTED in str(error.cause):
            return SpecError("ray", self.address, "install the same twofold on every node of the cluster")
        return error.cause if isinstance(error.cause, BaseException) else error


def answer(function: Callable[[Any, Item], Answer], sent: Sent, item: Item) -> Answer:
    """On a worker: ``function(shared, item)``, where every name of a catalog means what it does to the sender."""
    if sent.code != CODE:
        raise SpecError("ray", CODE, f"install the same twofold on every node of the cluster (here it is {sent.code})")
    catalogs, shared = pickle.loads(sent.content)
    catalog.adopt(catalogs)
    return function(shared, item)


def _imported(address: str) -> Any:
    try:
        return import_module("ray")
    except ImportError:
        raise SpecError("ray", address, "Ray is an extra: pip install 'twofold[ray]'") from None


def _check_reachable(address: str) -> None:
    """SpecError for an address of no known form, or that does not answer: Ray itself would try for minutes."""
    sought = os.environ.get("RAY_ADDRESS") or address if address == "auto" else address
    if sought == "auto":
        return
    if (match := PATTERN.fullmatch(sought)) is None:
        raise SpecError("ray", sought, FORMS)
    try:
        socket.create_connection((match["ipv6"] or match["host"], int(match["port"])), PATIENCE_S).close()
    except (OSError, OverflowError) as error:
        raise SpecError("ray", sought, f"nothing answers there ({error}); {FORMS}") from None


def _portable(shared: object) -> object:
    """``shared`` without the cache, which is a file of this machine."""
    return replace(shared, cache=None) if isinstance(shared, Question) else shared


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
