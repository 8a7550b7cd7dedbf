"""What a lane of a multiplexed replica offers, whatever its units are, and who makes lanes on a device.

Cores of a CPU are taken by threads (``cores``), the SMs of a CUDA device by streams (``sms``). Rounds only know this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, Protocol, TypeVar

import torch

from twofold.engine.cores import Crews, own_cores
from twofold.errors import SpecError

P = ParamSpec("P")
T = TypeVar("T")
Got = TypeVar("Got", covariant=True)
Clock = Callable[[], float]


class Run(Protocol[Got]):
    """A job that a lane was given."""

    def done(self) -> bool:
        """Whether it has ended, on the device too; never waits."""

    def result(self) -> Got:
        """Wait until it has ended, on the device too; what the job returned, or what it raised."""


class Watch(Protocol):
    """Times what a job does inside ``with``; the sum over all uses."""

    def __enter__(self) -> object:
        """Begin."""

    def __exit__(self, *raised: object) -> None:
        """End."""

    @property
    def seconds(self) -> float:
        """How long that took on the units of the lane, once its jobs are done."""


class Lane(Protocol):
    """One of two that run at once, each on units of its own."""

    def submit(self, job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Run[T]:
        """Run ``job`` in inference mode after those submitted before."""

    def follow(self, other: Any) -> None:
        """What is submitted from now on begins after all that ``other``, a lane of the same maker, has been given."""

    def inside(self) -> AbstractContextManager[object]:
        """Where the caller makes tensors that the jobs of this lane will read."""

    def watch(self, clock: Clock) -> Watch:
        """A watch for its jobs; ``clock`` tells the seconds of the host."""


class Lanes(Protocol):
    """The lanes of every split of one device."""

    def pair(self, prefill: int, decode: int) -> tuple[Lane, Lane]:
        """Lanes of so many units; a lane without units has nothing to run and shares the other."""

    def realised(self, prefill: int, decode: int) -> tuple[int, int]:
        """The units that the two of :meth:`pair` really have."""

    def close(self) -> None:
        """Wait for all jobs and give the units back."""


def lanes_of(device: torch.device, splits: Sequence[tuple[int, int]]) -> Lanes:
    """Who makes the lanes of ``splits``, each (prefill units, decode units), on ``device``.

    SpecError where the device cannot be divided so, or lacks units.
    """
    units = max(prefill + decode for prefill, decode in splits)
    if device.type == "cpu":
        return Crews(own_cores(units))
    if device.type == "cuda":
        from twofold.engine.sms import SMs

        return SMs(device, splits)
    accepted = f"the engine divides the cores of a CPU and the SMs of a CUDA device, and this is {device.type}"
    raise SpecError("policy", "multiplexed", accepted)
