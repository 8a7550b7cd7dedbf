"""Threads that own cores: how a lane of a multiplexed replica keeps to its part of a machine.

A thread pins itself, sizes its own OpenMP team, and only then runs a first operation, which creates the team on the
cores of the mask; a team that exists would not move. Changing the split means to choose another pair of threads.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ParamSpec, TypeVar

import torch

from twofold.errors import SpecError

P = ParamSpec("P")
T = TypeVar("T")
WARM_UP = 512


class HostWatch:
    """Times what is done inside ``with`` by the clock of the host: a core is done when its thread is."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._began, self.seconds = clock, 0.0, 0.0

    def __enter__(self) -> "HostWatch":
        self._began = self._clock()
        return self

    def __exit__(self, *raised: object) -> None:
        self.seconds += self._clock() - self._began


class Crew:
    """One thread with a team of its own on ``cores``; jobs run one after the other, in inference mode."""

    def __init__(self, cores: Sequence[int]) -> None:
        self._executor = ThreadPoolExecutor(1, f"crew-{len(cores)}", _settle, (tuple(cores),))
        self._last: tuple[Future[Any], ...] = ()

    def submit(self, job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Run ``job`` after those submitted before."""
        run = self._executor.submit(_in_inference_mode(job), *args, **kwargs)
        self._last = (run,)
        return run

    def follow(self, other: "Crew") -> None:
        """Wait until ``other`` has done all that it was given: what is submitted here then comes after it."""
        if other is not self:
            wait(other._last)

    def inside(self) -> AbstractContextManager[object]:
        """Memory is everybody's: tensors may be made anywhere."""
        return nullcontext()

    def watch(self, clock: Callable[[], float]) -> HostWatch:
        """A watch for its jobs that reads ``clock``, in seconds."""
        return HostWatch(clock)

    def close(self) -> None:
        """Let the jobs end, and the thread."""
        self._executor.shutdown()


class Crews:
    """The crews of both lanes for each split: prefill takes the first cores, decode the last; made on first use."""

    def __init__(self, cores: Sequence[int]) -> None:
        self._cores = tuple(cores)
        self._crews: dict[tuple[int, ...], Crew] = {}

    def pair(self, prefill: int, decode: int) -> tuple[Crew, Crew]:
        """Crews of ``prefill`` and ``decode`` cores; a lane without cores has nothing to run and shares the other."""
        ends = self._cores[:prefill], self._cores[len(self._cores) - decode :]
        first, last = ends if prefill and decode else (max(ends, key=len),) * 2
        return self._crew(first), self._crew(last)

    def realised(self, prefill: int, decode: int) -> tuple[int, int]:
        """The cores of both lanes: threads are pinned to all that were asked for."""
        return prefill, decode

    def close(self) -> None:
        """End every thread."""
        for crew in self._crews.values():
            crew.close()

    def _crew(self, cores: tuple[int, ...]) -> Crew:
        if cores not in self._crews:
            self._crews[cores] = Crew(cores)
        return self._crews[cores]


def own_cores(units: int) -> list[int]:
    """The first ``units`` cores that this process may use; SpecError when it has fewer, or cannot pin threads."""
    if not hasattr(os, "sched_setaffinity"):
        raise SpecError("policy", "multiplexed", "lanes need an operating system that pins threads to cores (Linux)")
    mine = sorted(os.sched_getaffinity(0))
    if len(mine) < units:
        raise SpecError("split", units, f"this process may use {len(mine)} cores; a split needs all its units")
    return mine[:units]


def _settle(cores: tuple[int, ...]) -> None:
    os.sched_setaffinity(0, cores)
    torch.get_num_threads()
    torch.set_num_threads(len(cores))
    torch.ones(WARM_UP, WARM_UP) @ torch.ones(WARM_UP, WARM_UP)


def _in_inference_mode(job: Callable[P, T]) -> Callable[P, T]:
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with torch.inference_mode():
            return job(*args, **kwargs)

    return run
