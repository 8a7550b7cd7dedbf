"""Probes of a running server, round after round in a new order, until the time is up."""

import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import Protocol

from twofold.clients.fit_probes import Probe, Reading, reading_of
from twofold.clients.load import Watch
from twofold.clients.measured import Measured
from twofold.errors import SpecError
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload

MOST_ROUNDS = 9
REFUSED = ("http 400", "http 413", "http 422", "http 429", "http 503")
"""Answers of a server that cannot take this much, as opposed to one that is broken."""
APART = "its streams did not decode together"
LATE = "there was no time for it"
Clock = Callable[[], float]
Told = Callable[[str, float], None]
"""Told what is asked now, and the share of the time that is spent (0 to 1)."""


class Server(Protocol):
    """A server that loads can be put on, such as a ``clients.bench.Bench``."""

    url: str

    def load(
        self, workload: Workload, slo: Slo | None = None, concurrency: int | None = None, watch: Watch | None = None
    ) -> Measured:
        """Put ``workload`` on it, ``concurrency`` requests at once, until ``watch`` says that it is enough."""


@dataclass
class Readings:
    """What came of the probes: readings of each, the reason why a probe has none, and complete rounds."""

    seen: dict[Probe, list[Reading]] = field(default_factory=dict)
    left_out: dict[Probe, str] = field(default_factory=dict)
    rounds: int = 0

    def median(self, probe: Probe) -> Reading:
        """The medians of its readings."""
        seconds, contexts = zip(*self.seen[probe], strict=True)
        return Reading(median(seconds), median(contexts))

    def add(self, probe: Probe, found: Reading | str | None) -> None:
        """Keep a reading; a reason counts only for a probe that has none."""
        if isinstance(found, Reading):
            self.seen.setdefault(probe, []).append(found)
            self.left_out.pop(probe, None)
        elif probe not in self.seen:
            self.left_out[probe] = found or APART


def ask(server: Server, probes: Iterable[Probe], seconds: float, tell: Told, clock: Clock = time.monotonic) -> Readings:
    """Ask the server all ``probes``, the lightest first, then again in a new order each round, for so many seconds.

    A load that is under way when the time is up is ended and does not count. SpecError when the server fails otherwise
    than by refusing a probe.
    """
    order, found, begun = sorted(probes, key=lambda probe: (probe.work, probe)), Readings(), clock()
    rng = random.Random(1)
    spent = _spent(begun, seconds, clock)
    _one(server, order[0], spent)
    while found.rounds < MOST_ROUNDS:
        for probe in order:
            tell(str(probe), min(1.0, spent()))
            found.add(probe, LATE if spent() >= 1.0 else _one(server, probe, spent))
        if spent() >= 1.0:
            break
        found.rounds += 1
        order = [probe for probe in order if probe not in found.left_out]
        rng.shuffle(order)
    return found


def _spent(begun: float, seconds: float, clock: Clock) -> Clock:
    return lambda: (clock() - begun) / seconds


def _one(server: Server, probe: Probe, spent: Clock) -> Reading | str | None:
    """A reading of the probe, or why there is none."""
    measured = server.load(probe.workload(), None, probe.streams, lambda _: spent() >= 1.0)
    failure = next((one.failure for one in measured.outcomes if one.failure is not None), None)
    if failure is not None and failure.kind not in REFUSED:
        raise SpecError("URL", server.url, f"accepted: a server that answers all through ({probe}: {failure})")
    if failure is not None:
        return f"{failure}"
    return LATE if measured.stopped else reading_of(probe, measured)
