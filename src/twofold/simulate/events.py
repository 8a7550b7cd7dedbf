"""The event queue: a binary heap over a record array, ties in the order of pushing."""

from twofold.compiled import compiled
from twofold.simulate.state import Simulation


@compiled
def _earlier(sim: Simulation, a: int, b: int) -> bool:
    first, second = sim.heap[a], sim.heap[b]
    if first.time != second.time:
        return bool(first.time < second.time)
    return bool(first.order < second.order)


@compiled
def _swap(sim: Simulation, a: int, b: int) -> None:
    x, y = sim.heap[a], sim.heap[b]
    x.time, y.time = y.time, x.time
    x.order, y.order = y.order, x.order
    x.kind, y.kind = y.kind, x.kind
    x.who, y.who = y.who, x.who
    x.version, y.version = y.version, x.version


@compiled
def push(sim: Simulation, time: float, kind: int, who: int, version: int) -> None:
    """Something will happen at ``time`` to ``who``; ``version`` lets the receiver ignore what is out of date."""
    control = sim.control[0]
    i = control.events
    event = sim.heap[i]
    event.time, event.order, event.kind, event.who, event.version = time, control.order, kind, who, version
    control.order += 1
    control.events += 1
    while i > 0 and _earlier(sim, i, (i - 1) // 2):
        _swap(sim, i, (i - 1) // 2)
        i = (i - 1) // 2


@compiled
def pop(sim: Simulation) -> None:
    """Remove the earliest event."""
    control = sim.control[0]
    control.events -= 1
    last, i = control.events, 0
    _swap(sim, 0, last)
    while True:
        child = 2 * i + 1
        if child >= last:
            return
        if child + 1 < last and _earlier(sim, child + 1, child):
            child += 1
        if not _earlier(sim, child, i):
            return
        _swap(sim, i, child)
        i = child


@compiled
def draw(sim: Simulation) -> float:
    """The next uniform number in [0, 1) of the run's own sequence (a 31-bit Lehmer generator)."""
    control = sim.control[0]
    state = (control.random * 48271) % 2147483647
    control.random = state
    return float(state / 2147483647.0)
