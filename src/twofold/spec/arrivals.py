"""When requests arrive: gaps in operational time, stretched by a rate that changes over time.

An arrival process is a stream of gaps with mean 1 (Poisson, gamma or constant) read against the cumulative
rate: the k-th arrival is when the expected number of arrivals reaches the k-th partial sum. One drawn stream
therefore serves every rate, which keeps comparisons between rates free of sampling noise (common random
numbers).
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import cast

import numpy as np

from twofold.errors import SpecError
from twofold.spec.quantity import parse_duration
from twofold.spec.workload import Floats

ACCEPTED = (
    "write poisson, gamma:CV, constant, piecewise:FILE.csv or piecewise:0=5,600=10 (seconds=rate), "
    "or onoff:ON_S:OFF_S[:OFF_SHARE]"
)


@dataclass(frozen=True)
class Arrivals:
    """An arrival process: its text, ``cv`` of the gaps, and its profile or its on and off phases, if any."""

    text: str
    cv: float = 1.0
    times: tuple[float, ...] = ()
    rates: tuple[float, ...] = ()
    on_s: float = 0.0
    off_s: float = 0.0
    off_share: float = 0.0

    def __str__(self) -> str:
        return self.text

    @property
    def needs_rate(self) -> bool:
        """Whether :meth:`generate` must be given a rate: all but ``piecewise``, which has its own."""
        return not self.times

    @classmethod
    def parse(cls, text: str | Arrivals, field: str = "arrivals") -> Arrivals:
        """Read one of these, or raise SpecError.

        - ``poisson``; ``gamma:2`` (gaps with this coefficient of variation); ``constant``
        - ``piecewise:0=5,600=10``: 5 requests/s from 0 s, 10 from 600 s to the end; Poisson within a piece
        - ``piecewise:FILE.csv``: the columns ``t_s`` and ``total_req_s``, same meaning
        - ``onoff:10:20`` or ``onoff:10:20:0.1``: exponentially long phases with these means in seconds, the
          rate in the off phases being this share (default 0) of that in the on phases
        """
        if isinstance(text, Arrivals):
            return text
        kind, _, rest = text.strip().partition(":")
        if kind == "poisson" and not rest:
            return cls(text)
        if kind == "constant" and not rest:
            return cls(text, cv=0.0)
        if kind == "gamma" and rest:
            return cls(text, cv=_cv(rest, text, field))
        if kind == "piecewise" and rest:
            times, rates = _inline(rest, text, field) if "=" in rest else _profile(Path(rest), field)
            return cls(text, times=times, rates=rates)
        if kind == "onoff" and rest:
            on_s, off_s, share = _phases(rest, text, field)
            return cls(text, on_s=on_s, off_s=off_s, off_share=share)
        raise SpecError(field, text, ACCEPTED)

    def generate(self, rng: np.random.Generator, rate: float | None, n: int) -> Floats:
        """Times of the first ``n`` arrivals, float64[n], seconds, non-decreasing.

        ``rate`` is the mean in requests/s. A profile keeps its own rates when it is None, and is scaled to
        this mean (its last piece counting as long as the one before) otherwise. Drawing more arrivals from a
        generator in the same state repeats the first ones.
        """
        if rate is None and self.needs_rate:
            raise SpecError("rate", rate, f"{self.text} needs a rate in requests/s")
        if rate is not None and not 0 < rate < math.inf:
            raise SpecError("rate", rate, "a rate is a number above 0, in requests a second")
        phases = _apart(rng)
        done = np.cumsum(self._gaps(rng, n))
        if self.times:
            return self._along_profile(done, rate)
        assert rate is not None
        return self._through_phases(phases, done, rate) if self.on_s else done / rate

    def _gaps(self, rng: np.random.Generator, n: int) -> Floats:
        if self.cv == 0:
            return np.ones(n)
        if self.cv == 1:
            return rng.standard_exponential(n)
        return rng.gamma(1 / self.cv**2, self.cv**2, n)

    def _along_profile(self, done: Floats, rate: float | None) -> Floats:
        times, rates = np.array(self.times), np.array(self.rates)
        if rate is not None:
            rates = rates * (rate / self.mean_rate)
        return _stretch(done, times, rates)

    @property
    def mean_rate(self) -> float:
        """Mean of a profile in requests/s, its last piece counting as long as the one before."""
        lengths = np.diff(self.times)
        lengths = np.append(lengths, lengths[-1] if len(lengths) else 1.0)
        return float(lengths @ np.array(self.rates) / lengths.sum())

    def _through_phases(self, rng: np.random.Generator, done: Floats, rate: float) -> Floats:
        high = rate * (self.on_s + self.off_s) / (self.on_s + self.off_share * self.off_s)
        pairs, expected = 0, 0.0
        lengths = np.zeros(0)
        while len(done) and expected < done[-1]:
            more = max(64, pairs)
            drawn = rng.standard_exponential((more, 2)) * (self.on_s, self.off_s)
            lengths = np.append(lengths, drawn.ravel())
            pairs += more
            expected = float(lengths[::2].sum() + self.off_share * lengths[1::2].sum()) * high
        times = np.concatenate([[0.0], np.cumsum(lengths)])
        rates = np.append(np.tile([high, high * self.off_share], pairs), high)
        return _stretch(done, times, rates)


def _apart(rng: np.random.Generator) -> np.random.Generator:
    """A generator far from ``rng`` in the same sequence, a function of its state alone."""
    return np.random.Generator(cast("np.random.PCG64", rng.bit_generator).jumped())


def _stretch(done: Floats, times: Floats, rates: Floats) -> Floats:
    """When the expected number of arrivals reaches ``done``, at ``rates[i]`` from ``times[i]`` on."""
    expected = np.concatenate([[0.0], np.cumsum(np.diff(times) * rates[:-1])])
    piece = np.searchsorted(expected, done, side="right") - 1
    # Pieces with rate 0 share one expected value; the arrival belongs to the piece that follows them.
    stretched: Floats = times[piece] + (done - expected[piece]) / rates[piece]
    return stretched


def _cv(rest: str, text: str, field: str) -> float:
    try:
        cv = float(rest)
    except ValueError:
        raise SpecError(field, text, ACCEPTED) from None
    if not 0 < cv < math.inf:
        raise SpecError(field, text, "the coefficient of variation of the gaps is above 0")
    return cv


def _inline(rest: str, text: str, field: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    try:
        pairs = [part.split("=") for part in rest.split(",")]
        times = tuple(parse_duration(time) for time, _ in pairs)
        rates = tuple(float(rate) for _, rate in pairs)
    except ValueError:
        raise SpecError(field, text, ACCEPTED) from None
    return _checked(times, rates, text, field)


def _profile(path: Path, field: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    if not path.is_file():
        raise SpecError(field, str(path), "no such file; piecewise: takes a CSV with the columns t_s and total_req_s")
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        rows = csv.DictReader(file)
        if not {"t_s", "total_req_s"} <= set(rows.fieldnames or ()):
            raise SpecError(f"{path.name}, columns", rows.fieldnames, "the columns t_s and total_req_s are needed")
        times, rates = [], []
        for row in rows:
            try:
                times.append(float(row["t_s"]))
                rates.append(float(row["total_req_s"]))
            except (TypeError, ValueError):
                line = f"{path.name}, line {rows.line_num}"
                raise SpecError(line, (row["t_s"], row["total_req_s"]), "two numbers, t_s and total_req_s") from None
    return _checked(tuple(times), tuple(rates), str(path), field)


def _checked(
    times: tuple[float, ...], rates: tuple[float, ...], text: str, field: str
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    if not times or times[0] != 0 or any(b <= a for a, b in pairwise(times)):
        raise SpecError(field, text, "the times of a profile start at 0 and rise")
    if not all(0 <= rate < math.inf for rate in rates) or rates[-1] == 0:
        raise SpecError(field, text, "the rates of a profile are 0 or more, and the last, which stays, is above 0")
    return times, rates


def _phases(rest: str, text: str, field: str) -> tuple[float, float, float]:
    parts = rest.split(":")
    if not 2 <= len(parts) <= 3:
        raise SpecError(field, text, ACCEPTED)
    try:
        on_s, off_s = parse_duration(parts[0]), parse_duration(parts[1])
        share = float(parts[2]) if len(parts) == 3 else 0.0
    except ValueError:
        raise SpecError(field, text, ACCEPTED) from None
    if not (on_s > 0 and off_s > 0 and 0 <= share <= 1):
        raise SpecError(field, text, "both phases last above 0 s and the share is between 0 and 1")
    return on_s, off_s, share
