"""Distributions of token counts, written as ``kind:number:number``."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twofold.errors import SpecError
from twofold.spec.workload import Ints, to_tokens
from twofold.spec.workload_checks import LARGEST

Sampler = Callable[[np.random.Generator, int], NDArray[np.float64]]

ACCEPTED = (
    "write fixed:512, lognormal:MEAN:SIGMA, gamma:MEAN:CV, geometric:MEAN, uniform:LOW:HIGH, "
    "zipf:EXPONENT:LOW:HIGH or cdf:FILE.csv"
)


@dataclass(frozen=True)
class Lengths:
    """A distribution of whole token counts from 1 on: its text, its mean before rounding, how to draw it."""

    text: str
    mean: float
    draw: Sampler

    def sample(self, rng: np.random.Generator, n: int) -> Ints:
        """``n`` token counts, int32[n], each at least 1."""
        return to_tokens(self.draw(rng, n))

    def __str__(self) -> str:
        return self.text

    @classmethod
    def parse(cls, text: str | int | Lengths, field: str = "length") -> Lengths:
        """Read one of these; a bare number is ``fixed``. SpecError when it is none of them.

        - ``fixed:512``
        - ``lognormal:755:0.6``: mean 755, standard deviation 0.6 of the logarithm (mu = ln 755 - 0.6^2 / 2)
        - ``gamma:755:1.2``: mean and coefficient of variation
        - ``geometric:3``: mean, at least 1
        - ``uniform:100:200``: both ends included
        - ``zipf:1.2:1:4096``: P(k) in proportion to k^-1.2 for whole k from 1 to 4096
        - ``cdf:FILE.csv``: an empirical distribution with the columns ``tokens`` and ``cdf``
        """
        if isinstance(text, Lengths):
            return text
        kind, _, rest = str(text).strip().partition(":")
        if not rest:
            kind, rest = "fixed", kind
        if kind == "cdf":
            return cls(f"cdf:{rest}", *_cdf(Path(rest), field))
        if kind not in KINDS:
            raise SpecError(field, text, ACCEPTED)
        count, build = KINDS[kind]
        numbers = _numbers(rest.split(":"), count, text, field)
        mean, draw = build(numbers, text, field)
        return cls(f"{kind}:{rest}", mean, draw)


def _numbers(parts: list[str], count: int, text: object, field: str) -> list[float]:
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        raise SpecError(field, text, ACCEPTED) from None
    if len(numbers) != count or not all(math.isfinite(number) for number in numbers):
        raise SpecError(field, text, ACCEPTED)
    return numbers


def _require(holds: bool, text: object, field: str, accepted: str) -> None:
    if not holds:
        raise SpecError(field, text, accepted)


def _fixed(numbers: list[float], text: object, field: str) -> tuple[float, Sampler]:
    (value,) = numbers
    _require(
        value == int(value) and 1 <= value <= LARGEST,
        text,
        field,
        "a fixed length is a whole number from 1 on",
    )
    return value, lambda rng, n: np.full(n, value)


def _lognormal(numbers: list[float], text: object, field: str) -> tuple[float, Sampler]:
    mean, sigma = numbers
    _require(mean >= 1 and sigma >= 0, text, field, "the mean is at least 1 and sigma at least 0")
    mu = math.log(mean) - sigma**2 / 2
    return mean, lambda rng, n: rng.lognormal(mu, sigma, n)


def _gamma(numbers: list[float], text: object, field: str) -> tuple[float, Sampler]:
    mean, cv = numbers
    _require(mean >= 1 and cv > 0, text, field, "the mean is at least 1 and the coefficient of variation above 0")
    return mean, lambda rng, n: rng.gamma(1 / cv**2, mean * cv**2, n)


def _geometric(numbers: list[float], text: object, field: str) -> tuple[float, Sampler]:
    (mean,) = numbers
    _require(mean >= 1, text, field, "the mean is at least 1")
    return mean, lambda rng, n: rng.geometric(1 / mean, n).astype(np.float64)


def _uniform(numbers: list[float], text: object, field: str) -> tuple[float, Sampler]:
    low, high = _range(numbers, text, field)
    return (low + high) / 2, lambda rng, n: rng.integers(low, high, n, endpoint=True).astype(np.float64)


def _zipf(numbers: list[float], text: object, field: str) -> tuple[float, Sampler]:
    exponent, *ends = numbers
    low, high = _range(ends, text, field)
    _require(exponent >= 0, text, field, "the exponent is at least 0")
    _require(high - low < 2**24, text, field, "the range is below 2^24 values")
    values = np.arange(low, high + 1, dtype=np.float64)
    weight = values**-exponent
    return _empirical(values, np.cumsum(weight) / weight.sum())


def _range(numbers: list[float], text: object, field: str) -> tuple[int, int]:
    low, high = numbers
    whole = low == int(low) and high == int(high)
    _require(whole and 1 <= low <= high <= LARGEST, text, field, "the range is two whole numbers, 1 <= LOW <= HIGH")
    return int(low), int(high)


def _cdf(path: Path, field: str) -> tuple[float, Sampler]:
    if not path.is_file():
        raise SpecError(field, str(path), "no such file; cdf: takes a CSV with the columns tokens and cdf")
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        rows = csv.DictReader(file)
        if not {"tokens", "cdf"} <= set(rows.fieldnames or ()):
            raise SpecError(f"{path.name}, columns", rows.fieldnames, "the columns tokens and cdf are needed")
        pairs = [_pair(path, rows.line_num, row["tokens"], row["cdf"]) for row in rows]
    if not pairs:
        raise SpecError(field, str(path), "the file has no rows")
    tokens, share = np.array(pairs).T
    for column, falls in (("tokens", np.diff(tokens) <= 0), ("cdf", np.diff(share) < 0)):
        if falls.any():
            line = int(falls.argmax()) + 3
            raise SpecError(f"{path.name}, line {line}, {column}", pairs[line - 2], f"{column} must rise")
    if not 0.999 <= share[-1] <= 1.001:
        raise SpecError(f"{path.name}, cdf", float(share[-1]), "the last cdf is 1")
    return _empirical(tokens, share / share[-1])


def _pair(path: Path, line: int, tokens: str, share: str) -> tuple[float, float]:
    try:
        pair = float(tokens), float(share)
    except (TypeError, ValueError):
        raise SpecError(f"{path.name}, line {line}", (tokens, share), "two numbers, tokens and cdf") from None
    if not (1 <= pair[0] <= LARGEST and 0 <= pair[1] <= 1.001):
        raise SpecError(f"{path.name}, line {line}", pair, "tokens from 1 on and a cdf from 0 to 1")
    return pair


def _empirical(values: NDArray[np.float64], cdf: NDArray[np.float64]) -> tuple[float, Sampler]:
    mean = float(values @ np.diff(cdf, prepend=0.0))
    cdf[-1] = 1.0
    return mean, lambda rng, n: values[np.searchsorted(cdf, rng.random(n), side="right")]


KINDS: dict[str, tuple[int, Callable[[list[float], object, str], tuple[float, Sampler]]]] = {
    "fixed": (1, _fixed),
    "lognormal": (2, _lognormal),
    "gamma": (2, _gamma),
    "geometric": (1, _geometric),
    "uniform": (2, _uniform),
    "zipf": (3, _zipf),
}
