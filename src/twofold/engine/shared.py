"""Sharing one loop between the threads that the caller may use."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

_local = threading.local()


def threads_for(work: int, worth: int) -> int:
    """As many threads as torch gives the caller, but no more than have ``worth`` of the ``work`` each; at least 1."""
    return max(1, min(torch.get_num_threads(), work // worth))


def shared(unit: Callable[[int, int], None], threads: int) -> None:
    """Run ``unit(i, threads)`` for each i, the first in this thread and each other in a helper of this thread.

    Helpers belong to the calling thread, so that two lanes do not wait for each other, and keep to its cores.
    """
    if threads == 1:
        unit(0, 1)
        return
    helpers = _helpers(threads - 1)
    others = [helpers.submit(unit, i, threads) for i in range(1, threads)]
    unit(0, threads)
    for other in others:
        other.result()


def _helpers(count: int) -> ThreadPoolExecutor:
    held = getattr(_local, "helpers", None)
    if held is None or held[0] < count:
        held = _local.helpers = (count, ThreadPoolExecutor(count, "shared"))
    return held[1]
