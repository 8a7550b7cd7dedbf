"""What a load has measured, in the words and the JSON of a simulated run."""

from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twofold.clients.load import Applied, Outcome
from twofold.simulate.attainment import attainment_of, limits_met
from twofold.simulate.result import SHARES, spread
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]
OVERLOADED = ("http 429", "http 503")
UNSEEN = (
    *("deployment", "kv_arrived_s", "first_decode_s", "steps", "utilisation", "kv_occupancy", "queue", "preemptions"),
    *("reused_tokens", "prefilled_tokens", "split_switches", "borrowed", "transfers", "faults", "energy_j", "cost_usd"),
    *("band", "breakdown_s"),
)
"""Keys of a simulated run's summary that a client cannot know."""


class Measured:
    """One load on one server. Arrays have one entry a request, in seconds, NaN where it never happened.

    Times are those of ``simulate.result.Result``, with the instant at which a request was due for its arrival.
    """

    kv_peak = float("nan")

    def __init__(self, workload: Workload, slo: Slo | None, applied: Applied, concurrency: int | None = None) -> None:
        self.workload, self.slo, self.concurrency = workload, slo, concurrency
        self.outcomes, self.cpu_s, self.stopped = applied

    def __len__(self) -> int:
        return len(self.outcomes)

    def _each(self, value: Any) -> Floats:
        """``value`` of each outcome, NaN where it is None."""
        found = [value(outcome) for outcome in self.outcomes]
        return np.array([np.nan if one is None else one for one in found], np.float64)

    @cached_property
    def due_s(self) -> Floats:
        """The stamp at which each request was due."""
        return self._each(lambda outcome: outcome.due_s)

    @cached_property
    def completed(self) -> NDArray[np.bool_]:
        """Whether each request was answered to its end."""
        return np.array([one.ended_s is not None and one.failure is None for one in self.outcomes], np.bool_)

    @cached_property
    def ttft_s(self) -> Floats:
        """Due to the first token."""
        return self._each(lambda one: one.answer.times[0] if one.answer.times else None) - self.due_s

    @cached_property
    def e2e_s(self) -> Floats:
        """Due to the last token of each completed request."""
        last = self._each(lambda one: one.answer.times[-1] if one.answer.times else None)
        return np.where(self.completed, last - self.due_s, np.nan)

    @cached_property
    def output_tokens(self) -> NDArray[np.int64]:
        """Tokens of each answer."""
        return np.array([one.answer.tokens for one in self.outcomes], np.int64)

    @cached_property
    def tpot_s(self) -> Floats:
        """Mean gap between tokens of each completed request; 0 for one token."""
        return np.asarray((self.e2e_s - self.ttft_s) / np.maximum(self.output_tokens - 1, 1))

    @cached_property
    def _gaps(self) -> list[list[float]]:
        return [one.answer.gaps() for one in self.outcomes]

    @cached_property
    def gaps_s(self) -> Floats:
        """Every gap between two tokens of all requests."""
        return np.array([gap for gaps in self._gaps for gap in gaps], np.float64)

    @cached_property
    def max_tbt_s(self) -> Floats:
        """Longest gap of each completed request; 0 for one token."""
        longest = np.array([max(gaps, default=0.0) for gaps in self._gaps], np.float64)
        return np.where(self.completed, longest, np.nan)

    @property
    def slot_wait_s(self) -> Floats:
        """A wait for a decode slot is within the second token's gap, where a client sees it; none apart from that."""
        return np.zeros(len(self))

    def tbt_quantile(self, share: float) -> float:
        """The gap that a share of all gaps do not exceed, seconds; NaN without gaps."""
        return float(np.quantile(self.gaps_s, share, method="inverted_cdf")) if len(self.gaps_s) else float("nan")

    @cached_property
    def late_s(self) -> Floats:
        """Seconds by which each request was written after it was due."""
        return self._each(lambda one: one.answer.sent_s) - self.due_s

    @cached_property
    def duration_s(self) -> float:
        """First request due to the last answer."""
        ends = self._each(lambda one: one.ended_s)
        return float(np.nanmax(ends) - self.due_s[0]) if not np.isnan(ends).all() else 0.0

    @cached_property
    def met(self) -> NDArray[np.bool_] | None:
        """Whether each request finished within all limits of the SLO on single requests."""
        return None if self.slo is None else limits_met(self, self.slo)

    @cached_property
    def failures(self) -> dict[str, dict[str, Any]]:
        """How often each kind of failure happened, most often first, with the message of the first."""
        failed = [one.failure for one in self.outcomes if one.failure is not None]
        first = {failure.kind: failure.message for failure in reversed(failed)}
        kinds = Counter(failure.kind for failure in failed)
        return {kind: {"count": count, "message": first[kind]} for kind, count in kinds.most_common()}

    def summary(self) -> dict[str, Any]:
        """The JSON object of a simulated run, null what a client cannot know, and what only a client knows."""
        duration, done = max(self.duration_s, 1e-12), self.completed
        rejected = sum(found["count"] for kind, found in self.failures.items() if kind in OVERLOADED)
        tbt = spread(self.gaps_s)
        if len(self.gaps_s):
            tbt |= {f"p{share * 100:.0f}": self.tbt_quantile(share) for share in SHARES}
        return dict.fromkeys(UNSEEN) | {
            "workload": self.workload.name,
            "requests": len(self),
            "completed": int(done.sum()),
            "rejected": rejected,
            "unfinished": int(len(self) - done.sum() - rejected),
            "duration_s": self.duration_s,
            "rate_req_s": self.workload.rate if self.concurrency is None else None,
            "concurrency": self.concurrency,
            "ttft_s": spread(self.ttft_s),
            "tbt_s": tbt,
            "tpot_s": spread(self.tpot_s[done & (self.output_tokens > 1)]),
            "e2e_s": spread(self.e2e_s),
            "slo": None if self.slo is None else str(self.slo),
            "attainment": None if self.slo is None else attainment_of(self, self.slo),
            "throughput_req_s": float(done.sum()) / duration,
            "throughput_tokens_s": float(self.output_tokens[done].sum()) / duration,
            "goodput_req_s": None if self.met is None else float(self.met.sum()) / duration,
            "failures": self.failures,
            "client": self._client(duration),
        }

    def _client(self, duration: float) -> dict[str, Any]:
        """How much the client itself may have distorted, and where the answers were not what was asked for."""
        done = [
            (one.answer, prompt, output)
            for one, good, prompt, output in zip(
                self.outcomes, self.completed, self.workload.prompt_tokens, self.workload.output_tokens, strict=True
            )
            if good
        ]
        return {
            "late_s": spread(self.late_s),
            "cpu_share": self.cpu_s / duration,
            "other_prompts": sum(answer.prompt_tokens not in (None, int(prompt)) for answer, prompt, _ in done),
            "other_outputs": sum(answer.tokens != int(output) for answer, _, output in done),
            "untimed_tokens": sum(max(answer.tokens - answer.counted, 0) for answer, _, _ in done),
        }

    @cached_property
    def requests(self) -> "pl.DataFrame":
        """One row a request, columns as those of a simulated run; ``gaps_s`` are all its gaps."""
        import polars as pl

        status = [_status(one, good) for one, good in zip(self.outcomes, self.completed, strict=True)]
        columns: dict[str, Any] = {
            "request": range(len(self)),
            "arrival_s": self.due_s - self.due_s[0] + self.workload.arrival_s[0],
            "late_s": self.late_s,
            "prompt_tokens": self.workload.prompt_tokens,
            "output_tokens": self.output_tokens,
            "ttft_s": self.ttft_s,
            "tpot_s": self.tpot_s,
            "max_tbt_s": self.max_tbt_s,
            "e2e_s": self.e2e_s,
            "gaps_s": pl.Series("gaps_s", self._gaps, dtype=pl.List(pl.Float64)),
            "status": status,
            "failure": [None if one.failure is None else str(one.failure) for one in self.outcomes],
        }
        if self.met is not None:
            columns["met_slo"] = self.met
        return pl.DataFrame(columns).with_columns(pl.selectors.float().fill_nan(None))

    def write_requests(self, path: Path) -> None:
        """Write ``requests`` to a .parquet file, or without the gaps to a .csv file."""
        from twofold.simulate.frames import write_frame

        write_frame(self.requests.drop("gaps_s") if path.suffix == ".csv" else self.requests, path)


def _status(outcome: Outcome, completed: bool) -> str:
    if completed:
        return "completed"
    return "rejected" if outcome.failure is not None and outcome.failure.kind in OVERLOADED else "unfinished"
