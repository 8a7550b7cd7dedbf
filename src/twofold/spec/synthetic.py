"""Made-up workloads: lengths, arrivals, shared prefixes and multi-turn sessions, from one seed."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from twofold.errors import SpecError
from twofold.spec.arrivals import Arrivals
from twofold.spec.checked import Checked, Positive, Seconds
from twofold.spec.conversations import (
    LengthText,
    Sessions,
    SharedPrefix,
    Turns,
    arrival_times,
    draw_prefixes,
    held_tokens,
    join,
)
from twofold.spec.lengths import Lengths
from twofold.spec.quantity import parse_rate
from twofold.spec.workload import Floats, Workload
from twofold.spec.workload_checks import LARGEST

ArrivalText = Annotated[str, BeforeValidator(lambda value: str(Arrivals.parse(value, "")))]
Rate = Annotated[float, BeforeValidator(lambda value: value if value is None else parse_rate(value, ""))]
STREAMS = ("arrivals", "prompts", "outputs", "prefixes", "turns", "thoughts")


class Synthetic(Checked):
    """A workload that is drawn rather than recorded.

    ``rate`` in requests/s (also ``"300/min"``); ``requests`` or ``duration_s`` says how many. ``prompt`` and
    ``output`` as in ``spec.lengths``, ``arrivals`` as in ``spec.arrivals``. With sessions, ``rate`` is still
    that of requests (sessions start at rate / mean turns). Prefix information comes in pieces of
    ``hash_tokens`` tokens.

    Arrivals, prompts, outputs, prefixes and sessions have generators of their own, so that a change of one
    leaves the draws of the others as they were.
    """

    rate: Rate | None = None
    requests: Positive | None = None
    duration_s: Annotated[Seconds, Field(gt=0)] | None = None
    prompt: LengthText = "lognormal:755:0.6"
    output: LengthText = "lognormal:200:0.8"
    arrivals: ArrivalText = "poisson"
    seed: Annotated[int, Field(ge=0)] = 0
    shared_prefix: SharedPrefix | None = None
    sessions: Sessions | None = None
    hash_tokens: Positive = 16
    name: str = "synthetic"

    @model_validator(mode="after")
    def _agree(self) -> Synthetic:
        if (self.requests is None) == (self.duration_s is None):
            raise SpecError("requests", self.requests, "give either requests or duration_s")
        if self.rate is None and Arrivals.parse(self.arrivals).needs_rate:
            raise SpecError("rate", None, f"{self.arrivals} arrivals need a rate in requests/s")
        return self

    def workload(self) -> Workload:
        """Draw it: the same fields give the same arrays, bit for bit."""
        if self.sessions is None and self.shared_prefix is None:
            times = self._starts(self._streams()["arrivals"], 1.0, self.requests)
            turns = self._turns(times, self._streams())
            return Workload(self.name, times, turns.prompt, turns.output).validate()
        if self.sessions is None or self.requests is None:
            return self._conversations(self.requests).validate()
        return self._first_requests(self.requests).validate()

    def _first_requests(self, wanted: int) -> Workload:
        """Enough sessions that no later one could still send one of the first ``wanted`` requests."""
        assert self.sessions is not None
        sessions = int(1.1 * wanted / Lengths.parse(self.sessions.turns).mean) + 16
        while sessions < 64 * wanted + 1024:
            drawn = self._conversations(sessions)
            last_start = self._starts(self._streams()["arrivals"], self._mean_turns, sessions)[-1]
            if len(drawn) >= wanted and drawn.arrival_s[wanted - 1] <= last_start:
                return drawn.head(wanted)
            sessions *= 2
        raise SpecError("sessions.max_tokens", self.sessions.max_tokens, "hardly any session fits in it")

    def _streams(self) -> dict[str, np.random.Generator]:
        seeds = np.random.SeedSequence(self.seed).spawn(len(STREAMS))
        return {name: np.random.Generator(np.random.PCG64(seed)) for name, seed in zip(STREAMS, seeds, strict=True)}

    @property
    def _mean_turns(self) -> float:
        return Lengths.parse(self.sessions.turns).mean if self.sessions else 1.0

    def _starts(self, rng: np.random.Generator, turns: float, count: int | None) -> Floats:
        """Starts of ``count`` sessions (None: all within ``duration_s``) of ``turns`` requests on average."""
        process = Arrivals.parse(self.arrivals)
        rate = self.rate
        if turns != 1:
            rate = (process.mean_rate if rate is None else rate) / turns
        if count is not None:
            return process.generate(rng, rate, count)
        assert self.duration_s is not None
        return _until(process, rng, rate, self.duration_s)

    def _turns(self, starts: Floats, streams: dict[str, np.random.Generator]) -> Turns:
        turns = np.ones(len(starts), np.int64)
        if self.sessions is not None:
            turns = Lengths.parse(self.sessions.turns).sample(streams["turns"], len(starts)).astype(np.int64)
        n = int(turns.sum())
        prompt = Lengths.parse(self.prompt).sample(streams["prompts"], n)
        return Turns(starts, turns, prompt, Lengths.parse(self.output).sample(streams["outputs"], n))

    def _conversations(self, sessions: int | None) -> Workload:
        streams = self._streams()
        turns = self._turns(self._starts(streams["arrivals"], self._mean_turns, sessions), streams)
        prefixes = draw_prefixes(self.shared_prefix, streams["prefixes"], len(turns.turns))
        held = held_tokens(turns, prefixes)
        times = arrival_times(turns, self.sessions.think_s, streams["thoughts"]) if self.sessions else turns.start_s
        rows = np.argsort(times, kind="stable")
        if self.duration_s is not None:
            rows = rows[times[rows] < self.duration_s]
        if self.sessions and self.sessions.max_tokens is not None:
            rows = rows[held[rows] <= self.sessions.max_tokens]
        if len(rows) and held[rows].max() > LARGEST:
            raise SpecError("sessions.turns", int(held[rows].max()), f"a session holds up to {LARGEST} tokens")
        return join(self.name, turns, prefixes, times, rows, self.hash_tokens, held)


def _until(process: Arrivals, rng: np.random.Generator, rate: float | None, end_s: float) -> Floats:
    """All arrivals before ``end_s``: the process is drawn again, longer, until it reaches beyond."""
    state = rng.bit_generator.state
    mean = process.mean_rate if rate is None else rate
    n = int(mean * end_s * 1.05) + 64
    while True:
        rng.bit_generator.state = state
        times = process.generate(rng, rate, n)
        if times[-1] >= end_s:
            return times[: int(np.searchsorted(times, end_s))]
        n *= 2
