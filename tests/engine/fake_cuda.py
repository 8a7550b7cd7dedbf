"""A CUDA device that is not there: streams, events and graphs that compute on the CPU and keep track of the order.

What a job computes happens at once. Beside that every stream counts its operations, and every event knows what happens
before it, as vector clocks (Fidge 1988, Mattern 1989): two accesses to the same memory, one of them a write, that
neither the order of a stream nor an event puts in order are a race. What the host knows does not count as order here.
"""

import sys
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

Clock = dict[int, int]


class Device:
    """What all streams share; ``finished`` says, when a stream is asked, whether it has ended what it was given."""

    def __init__(self, sms: int = 2, finished: Callable[[], bool] = lambda: True) -> None:
        self.sms, self.finished = sms, finished
        self.default = Stream(self, 0)
        self.current = self.default
        self.accesses: list[tuple[int, Clock, frozenset, frozenset]] = []
        self.races: list[tuple[Any, ...]] = []
        self.waits: list[tuple[int, int]] = []
        self.free_bytes = 1 << 30
        self.captures: list[tuple[int, Any]] = []

    def stream(self, number: int) -> "Stream":
        return Stream(self, number)

    def access(self, reads: Iterable[Hashable], writes: Iterable[Hashable]) -> None:
        """An operation on the stream that is current."""
        stream, mine, theirs = self.current, frozenset(reads), frozenset(writes)
        stream.clock[stream.cuda_stream] = stream.clock.get(stream.cuda_stream, 0) + 1
        for other, clock, read, written in self.accesses:
            common = (theirs & (read | written)) | (mine & written)
            if common and stream.clock.get(other, 0) < clock[other]:
                self.races.append((other, stream.cuda_stream, sorted(common)[:3]))
        self.accesses.append((stream.cuda_stream, dict(stream.clock), mine, theirs))

    @contextmanager
    def on(self, stream: "Stream") -> Iterator[None]:
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before


class Stream:
    def __init__(self, device: Device, number: int) -> None:
        self.device, self.cuda_stream, self.clock = device, number, Clock()

    def wait_event(self, event: "Event") -> None:
        assert event.clock is not None, "an event that nobody has recorded is waited for"
        self.device.waits.append((event.stream, self.cuda_stream))
        for stream, count in event.clock.items():
            self.clock[stream] = max(self.clock.get(stream, 0), count)


class Event:
    def __init__(self, device: Device) -> None:
        self.device, self.clock, self.stream, self.done = device, None, -1, False

    def record(self, stream: Stream | None = None) -> None:
        stream = stream or self.device.current
        self.clock, self.stream = dict(stream.clock), stream.cuda_stream

    def query(self) -> bool:
        assert self.clock is not None
        self.done = self.done or self.device.finished()
        return self.done

    def synchronize(self) -> None:
        assert self.clock is not None
        self.done = True

    def elapsed_time(self, end: "Event") -> float:
        assert self.done or end.clock is not None
        return 2.0


class Recorder(TorchDispatchMode):
    """Notes every operation with the memory it was given, to be done again with what that holds by then."""

    def __init__(self) -> None:
        super().__init__()
        self.again: list[Callable[[], None]] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = function(*args, **kwargs)
        given = {each.untyped_storage().data_ptr() for each in args if isinstance(each, torch.Tensor)}
        if isinstance(out, torch.Tensor) and out.untyped_storage().data_ptr() in given:
            if function._schema.is_mutable:
                self.again.append(lambda: function(*args, **kwargs))
        else:
            self.again.append(lambda: _copy(out, function(*args, **kwargs)))
        return out


def _copy(old: Any, new: Any) -> None:
    for before, after in zip(*((x if isinstance(x, (tuple, list)) else [x]) for x in (old, new)), strict=True):
        if isinstance(before, torch.Tensor):
            before.copy_(after)


RECORDERS: list[Recorder] = []


def recording() -> bool:
    """Whether a graph is being captured."""
    return bool(RECORDERS)


def opaque(step: Callable[[], None]) -> None:
    """Do ``step`` as one kernel, which reads its buffers anew each time that a graph is replayed."""
    if RECORDERS:
        RECORDERS[-1].again.append(step)
    with _disable_current_modes():
        step()


class Graph:
    """Whatever ran while it was captured counts for nothing until it is replayed."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.replays = 0

    def replay(self) -> None:
        self.replays += 1
        for step in self.recorder.again:
            step()


@contextmanager
def capturing(device: Device, graph: Graph, **options: Any) -> Iterator[None]:
    stream = options["stream"]
    assert stream is not device.default
    device.captures.append((stream.cuda_stream, options["pool"]))
    device.free_bytes -= 1 << 20
    RECORDERS.append(graph.recorder)
    try:
        with device.on(stream), graph.recorder:
            yield
    finally:
        RECORDERS.pop()


def install(monkeypatch: Any, device: Device) -> Device:
    """Put ``device`` in the place of ``torch.cuda``, and a ``cuda.core`` that divides it."""
    streams: dict[int, Stream] = {}

    def made(number: int) -> Stream:
        return streams.setdefault(number, device.stream(number))

    numbers = iter(range(1, 1000))
    fakes = {
        "Stream": lambda where: made(next(numbers)),
        "ExternalStream": lambda address, device: made(address),
        "Event": lambda enable_timing=False: Event(device),
        "stream": device.on,
        "current_stream": lambda where: device.current,
        "default_stream": lambda where: device.default,
        "current_device": lambda: 0,
        "synchronize": lambda where: None,
        "get_device_properties": lambda where: SimpleNamespace(name="Fake", multi_processor_count=device.sms),
        "mem_get_info": lambda where: (device.free_bytes, 1 << 31),
        "graph_pool_handle": object,
        "CUDAGraph": Graph,
        "graph": lambda graph, **options: capturing(device, graph, **options),
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    monkeypatch.setitem(sys.modules, "cuda", ModuleType("cuda"))
    monkeypatch.setitem(sys.modules, "cuda.core", core(device.sms))
    return device


def core(sms: int, rounding: int = 1) -> Any:
    """``cuda.core`` for a device of so many SMs, which rounds the first part up; ``open`` counts what is not closed."""
    module: Any = ModuleType("cuda.core")
    module.open, module.strict, module.addresses = 0, False, iter(range(1000, 2000))

    class Closing:
        def __init__(self, **fields: Any) -> None:
            self.__dict__ |= fields
            module.open += 1

        def close(self) -> None:
            module.open -= 1

    class SM:
        def __init__(self, sm_count: int) -> None:
            self.sm_count = sm_count

        def split(self, options: Any) -> tuple[list[Any], Any]:
            count = -(-options.count // rounding) * rounding
            if count > self.sm_count:
                raise RuntimeError("CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION")
            return [SM(count)], SM(self.sm_count - count)

    class Device:
        def __init__(self, number: int) -> None:
            self.resources = SimpleNamespace(sm=SM(sms))

        def set_current(self) -> None: ...

        def create_context(self, options: Any) -> Any:
            (part,) = options.resources
            if part.sm_count == 0 and module.strict:
                raise RuntimeError("CUDA_ERROR_INVALID_RESOURCE_TYPE")
            return Closing(resources=SimpleNamespace(sm=part), create_stream=_stream)

    def _stream(options: Any) -> Any:
        assert options.nonblocking
        return Closing(handle=next(module.addresses))

    module.Device = Device
    module.SMResourceOptions = module.ContextOptions = module.StreamOptions = SimpleNamespace
    return module
