"""What an SLO demands of a share of the requests, as deadlines that a bound can use."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from twofold.plan.demand import Floats, Traffic
from twofold.plan.probe import SUSTAINABLE_TTFT_S
from twofold.simulate.rules import most_lost
from twofold.spec.slo import Slo


@dataclass(frozen=True)
class Demand:
    """All but ``excused`` requests have their first token within ``first_s``, a mean gap between tokens of at most
    ``gap_s``, and their last token within ``end_s`` of their arrival (infinite: not demanded)."""

    excused: int
    first_s: float = math.inf
    gap_s: float = math.inf
    end_s: float = math.inf

    @property
    def first(self) -> float:
        """Seconds from arrival by which the first token is due."""
        return min(self.first_s, self.end_s)

    def finish(self, traffic: Traffic) -> Floats:
        """Seconds from arrival by which the last token is due, float64[n]."""
        slack = traffic.decodes * self.gap_s if self.gap_s < math.inf else traffic.decodes * 0.0 + math.inf
        due: Floats = (slack + self.first_s).clip(max=self.end_s)
        return due


def demands(slo: Slo, requests: int) -> list[Demand]:
    """What every passing run keeps: the limits on single requests, percentile limits, and half of all first tokens
    within 2 s. A limit on gaps alone is joined with each on first tokens, for the requests that keep both."""
    found = [Demand(requests // 2, first_s=SUSTAINABLE_TTFT_S), *_limits(slo, requests)]
    gaps = [demand for demand in found if demand.first == math.inf]
    firsts = [demand for demand in found if demand.first_s < math.inf and demand.gap_s == math.inf]
    for gap, first in product(gaps, firsts):
        if gap.excused + first.excused < requests:
            found.append(Demand(gap.excused + first.excused, first.first_s, gap.gap_s, first.end_s))
    return found


def _limits(slo: Slo, requests: int) -> Iterator[Demand]:
    if slo.limits:
        gaps = [limit for metric, limit in slo.limits.items() if metric in ("tpot", "tbt")]
        yield Demand(
            most_lost(requests, slo.attainment),
            slo.ttft_s or math.inf,
            min(gaps, default=math.inf),
            slo.e2e_s or math.inf,
        )
    fields = {"ttft": "first_s", "tpot": "gap_s", "e2e": "end_s"}
    for limit in slo.percentiles:
        if limit.metric in fields:
            beyond = requests - math.floor(requests * limit.percentile / 100.0)
            yield Demand(min(requests, beyond), **{fields[limit.metric]: limit.limit_s})
