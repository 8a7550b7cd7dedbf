"""Lanes on the SMs of a CUDA device: for each split a pair of green contexts with a stream each, made at the start.

One thread launches everything, the decode step first: a job returns once its kernels are queued, and an event behind
them says when they are done. Where a lane reads what the other wrote, it waits for an event of the other's stream; both
lanes are green while they run side by side, as kernels of the primary context may take any SM. A lane that has the
device to itself is a plain stream. Written from documentation; it has not been run on a device.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, ParamSpec, TypeVar

import torch

from twofold.engine.green import Part, divided
from twofold.errors import SpecError

P = ParamSpec("P")
T = TypeVar("T")
logger = logging.getLogger("twofold.engine")


class StreamRun(Generic[T]):
    """A job whose kernels are queued, with what it returned or raised, and the event behind them."""

    def __init__(self, value: T | None, error: Exception | None, event: Any) -> None:
        self._value, self._error, self._event = value, error, event

    def done(self) -> bool:
        """Whether its kernels have ended."""
        return self._error is not None or bool(self._event.query())

    def result(self) -> T:
        """Wait for its kernels; what the job returned, or what it raised."""
        if self._error is not None:
            raise self._error
        self._event.synchronize()
        return self._value  # type: ignore[return-value]


class StreamWatch:
    """Times kernels by events before and behind them."""

    def __init__(self) -> None:
        self._pairs: list[tuple[Any, Any]] = []

    def __enter__(self) -> StreamWatch:
        self._pairs.append((_event(timed=True), _event(timed=True)))
        self._pairs[-1][0].record()
        return self

    def __exit__(self, *raised: object) -> None:
        self._pairs[-1][1].record()

    @property
    def seconds(self) -> float:
        """Seconds on the device, once it is done."""
        return sum(float(begun.elapsed_time(ended)) for begun, ended in self._pairs) / 1e3


class StreamLane:
    """A stream that jobs are launched on by whoever submits them."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def submit(self, job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> StreamRun[T]:
        """Launch ``job`` now, behind those submitted before; what fails here is raised to who waits for it."""
        value, failure = None, None
        with torch.inference_mode(), torch.cuda.stream(self.stream):
            try:
                value = job(*args, **kwargs)
            except Exception as error:
                failure = error
        return StreamRun(value, failure, self._mark())

    def follow(self, other: StreamLane) -> None:
        """Let the stream wait for all that is queued on the one of ``other``; the host waits for nothing."""
        if other is not self:
            self.stream.wait_event(other._mark())

    def inside(self) -> AbstractContextManager[object]:
        """Tensors made here are in memory of this stream, which it alone uses again."""
        return torch.cuda.stream(self.stream)  # type: ignore[no-any-return,unused-ignore]

    def watch(self, clock: Callable[[], float]) -> StreamWatch:
        """A watch for its jobs: the device keeps its own time."""
        return StreamWatch()

    def _mark(self) -> Any:
        event = _event()
        event.record(self.stream)
        return event


class SMs:
    """The lanes of ``splits`` (prefill SMs, decode SMs) on ``device``; SpecError where it cannot be divided so."""

    def __init__(self, device: torch.device, splits: Sequence[tuple[int, int]]) -> None:
        self._device = device
        _check_units(device, max(prefill + decode for prefill, decode in splits))
        torch.cuda.synchronize(device)
        self._whole = StreamLane(torch.cuda.Stream(device))  # type: ignore[no-untyped-call,unused-ignore]
        self._parts: list[Part] = []
        self._lanes: dict[tuple[int, int], tuple[StreamLane, StreamLane]] = {}
        self._realised: dict[tuple[int, int], tuple[int, int]] = {}
        try:
            for split in splits:
                if all(split) and split not in self._lanes:
                    self._divide(split)
        except SpecError:
            self.close()
            raise

    def pair(self, prefill: int, decode: int) -> tuple[StreamLane, StreamLane]:
        """The streams of a split; both are one stream of the whole device where one phase has all of it."""
        return self._lanes[prefill, decode] if prefill and decode else (self._whole, self._whole)

    def realised(self, prefill: int, decode: int) -> tuple[int, int]:
        """The SMs of both lanes as the driver made them."""
        return self._realised.get((prefill, decode), (prefill, decode))

    def close(self) -> None:
        """Wait for the device and give all parts back."""
        torch.cuda.synchronize(self._device)
        for part in self._parts:
            part.close()
        self._parts.clear()
        self._lanes.clear()

    def _divide(self, split: tuple[int, int]) -> None:
        index = torch.cuda.current_device() if self._device.index is None else self._device.index
        parts = divided(index, *split)
        self._parts += parts
        self._lanes[split] = self._lane(parts[0]), self._lane(parts[1])
        self._realised[split] = made = parts[0].sms, parts[1].sms
        level = logging.INFO if made == split else logging.WARNING
        logger.log(level, "lanes on SMs", extra={"fields": {"asked": split, "realised": made, "verified": False}})

    def _lane(self, part: Part) -> StreamLane:
        stream = torch.cuda.ExternalStream(part.address, device=self._device)  # type: ignore[no-untyped-call,unused-ignore]
        return StreamLane(stream)


def _event(timed: bool = False) -> Any:
    return torch.cuda.Event(enable_timing=timed)  # type: ignore[no-untyped-call,unused-ignore]


def _check_units(device: torch.device, units: int) -> None:
    found = torch.cuda.get_device_properties(device)
    if found.multi_processor_count != units:
        accepted = f"{found.name} has {found.multi_processor_count} SMs: name the device that it is in the deployment"
        raise SpecError("split", f"{units} SMs", accepted)
