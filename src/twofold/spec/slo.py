"""Service-level objectives: what a request must keep, and what a percentile of all requests must keep."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from twofold.errors import SpecError
from twofold.spec.quantity import format_duration, format_number, parse_duration

METRICS = ("ttft", "tpot", "tbt", "e2e")
ACCEPTED = 'accepted: limits on ttft, tpot, tbt or e2e, such as "ttft<=0.5s, tpot<=20ms @90%" or "p99 tbt<=100ms"'
LIMIT = re.compile(r"(?:p([\d.]+)\s+)?([a-z0-9]+?)(?:_p([\d.]+))?\s*(?:<=|≤)\s*(\S.*)")
DEFAULT_ATTAINMENT = 0.9


@dataclass(frozen=True)
class PercentileLimit:
    """A limit on one percentile (above 0, up to 100) of a metric; ``tbt`` means all gaps of all requests."""

    metric: str
    percentile: float
    limit_s: float

    def __str__(self) -> str:
        return f"p{format_number(self.percentile)} {self.metric}<={format_duration(self.limit_s)}"


@dataclass(frozen=True)
class Slo:
    """Limits that a share ``attainment`` of requests must all meet (None: no limit), and percentile limits.

    In seconds: ``ttft_s`` time to first token, ``tpot_s`` mean gap between tokens, ``tbt_s`` largest gap of
    the request, ``e2e_s`` arrival to last token.
    """

    ttft_s: float | None = None
    tpot_s: float | None = None
    tbt_s: float | None = None
    e2e_s: float | None = None
    attainment: float = DEFAULT_ATTAINMENT
    percentiles: tuple[PercentileLimit, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.attainment <= 1:
            raise SpecError("attainment", self.attainment, "a share above 0 and up to 1 (100%)")
        for name, limit in [*self.limits.items(), *((str(p.metric), p.limit_s) for p in self.percentiles)]:
            if not 0 < limit < float("inf"):
                raise SpecError(name, limit, "a limit is a time above 0")
        for of_all in self.percentiles:
            if of_all.metric not in METRICS:
                raise SpecError("slo", of_all.metric, ACCEPTED)
            if not 0 < of_all.percentile <= 100:
                raise SpecError("percentile", of_all.percentile, "a percentile is above 0 and up to 100")
        if not self.limits and not self.percentiles:
            raise SpecError("slo", str(self), ACCEPTED)

    @property
    def limits(self) -> dict[str, float]:
        """The limits on every request that are set: metric to seconds, in the order of :data:`METRICS`."""
        values = {metric: getattr(self, f"{metric}_s") for metric in METRICS}
        return {metric: limit for metric, limit in values.items() if limit is not None}

    @classmethod
    def parse(cls, text: str | Slo) -> Slo:
        """Read e.g. ``"ttft<=0.5s, tpot<=20ms @90%"``, ``"p99 tbt<=100ms"`` or ``"tbt_p99<=100ms"``.

        Without ``@`` the attainment is 90 %. Raises SpecError for anything else, and for a limit given twice.
        """
        if isinstance(text, Slo):
            return text
        limits, at, share = text.partition("@")
        found: dict[str, Any] = {"attainment": _share(share, text)} if at else {}
        percentiles: list[PercentileLimit] = []
        for term in limits.split(","):
            metric, percentile, limit_s = _limit(term.strip(), text)
            if percentile is not None:
                percentiles.append(PercentileLimit(metric, percentile, limit_s))
            elif f"{metric}_s" in found:
                raise SpecError("slo", text, f"{metric} is limited twice")
            else:
                found[f"{metric}_s"] = limit_s
        return cls(**found, percentiles=tuple(percentiles))

    def scaled(self, factor: float) -> Slo:
        """The same objectives with every limit times ``factor``."""
        if not 0 < factor < float("inf"):
            raise SpecError("slo scale", factor, "a scale is a number above 0")
        return replace(
            self,
            **{f"{metric}_s": limit * factor for metric, limit in self.limits.items()},
            percentiles=tuple(replace(p, limit_s=p.limit_s * factor) for p in self.percentiles),
        )

    def __str__(self) -> str:
        terms = [f"{metric}<={format_duration(limit)}" for metric, limit in self.limits.items()]
        terms += map(str, self.percentiles)
        return f"{', '.join(terms)} @{_percent(self.attainment)}"


def _limit(term: str, text: str) -> tuple[str, float | None, float]:
    match = LIMIT.fullmatch(term)
    if match is None or match[2] not in METRICS or (match[1] and match[3]):
        raise SpecError("slo", text, ACCEPTED if term == text.strip() else f"{term!r} is no limit; {ACCEPTED}")
    percentile = match[1] or match[3]
    try:
        number = None if percentile is None else float(percentile)
    except ValueError:
        raise SpecError("slo", text, f"the percentile of {term!r} is no number; {ACCEPTED}") from None
    return match[2], number, parse_duration(match[4], f"slo {match[2]}")


def _share(written: str, text: str) -> float:
    number = written.strip()
    try:
        return float(number[:-1]) / 100 if number.endswith("%") else float(number)
    except ValueError:
        raise SpecError("slo", text, "after @ comes a share such as 90% or 0.9") from None


def _percent(share: float) -> str:
    text = f"{share * 100:.12g}%"
    return text if float(text[:-1]) / 100 == share else repr(share)
