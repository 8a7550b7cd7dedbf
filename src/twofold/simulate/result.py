"""What a run has measured: a summary, a frame of requests, a frame of replicas, the queue over time."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twofold.cost.contract import CostModel
from twofold.simulate.attainment import attainment_of, limits_met
from twofold.simulate.band import Band, band_of
from twofold.simulate.build import members_of
from twofold.simulate.quantiles import gap_quantiles, gap_totals
from twofold.simulate.state import Simulation
from twofold.spec.deployment import Deployment
from twofold.spec.model import Model
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]
PHASES = ("queued", "prefill", "stall", "transfer", "decode_wait", "decode")
_FIELDS = ("queued_s", "prefill_s", "stall_s", "transfer_s", "slot_s", "decode_s")
SHARES = np.array([0.5, 0.9, 0.99])


def spread(values: Floats) -> dict[str, float | None]:
    """mean, p50, p90, p99 and max of ``values``, None for all without any."""
    names = ("mean", "p50", "p90", "p99", "max")
    known = values[~np.isnan(values)]
    if len(known) == 0:
        return dict.fromkeys(names)
    numbers = [known.mean(), *np.quantile(known, SHARES), known.max()]
    return dict(zip(names, map(float, numbers), strict=True))


class Result:
    """One finished run. Arrays have one entry a request, in seconds, NaN where it never happened."""

    def __init__(
        self,
        sim: Simulation,
        workload: Workload,
        deployment: Deployment,
        model: Model,
        slo: Slo | None,
        concurrency: int | None = None,
        costs: CostModel | None = None,
    ) -> None:
        self.workload, self.deployment, self.model, self.slo = workload, deployment, model, slo
        self.concurrency, self._costs = concurrency, costs
        self._sim, self._life = sim, sim.life
        self.arrival_s: Floats = workload.arrival_s

    def __len__(self) -> int:
        return len(self.workload)

    @cached_property
    def completed(self) -> NDArray[np.bool_]:
        """Whether each request got all its tokens."""
        return np.asarray(~np.isnan(self._life.finish))

    @cached_property
    def ttft_s(self) -> Floats:
        """Arrival to the first token (the end of prefill)."""
        return np.asarray(self._life.first_token - self.arrival_s)

    @cached_property
    def kv_arrived_s(self) -> Floats:
        """Arrival to the KV being on the decode replica; NaN where it did not move."""
        return np.asarray(self._life.kv_arrived - self.arrival_s)

    @cached_property
    def first_decode_s(self) -> Floats:
        """Arrival to the end of the first decode step (the second token)."""
        return np.asarray(self._life.first_decode - self.arrival_s)

    @cached_property
    def tpot_s(self) -> Floats:
        """Mean gap between tokens of each finished request; 0 for one token."""
        gaps = np.maximum(self.workload.output_tokens - 1, 1)
        return np.asarray((self._life.finish - self._life.first_token) / gaps)

    @cached_property
    def e2e_s(self) -> Floats:
        """Arrival to the last token."""
        return np.asarray(self._life.finish - self.arrival_s)

    @cached_property
    def max_tbt_s(self) -> Floats:
        """Longest gap of each finished request; 0 for one token."""
        return np.where(self.completed, self._life.max_gap, np.nan)

    @property
    def stopped(self) -> bool:
        """Whether the run ended early, since one of its rules was certainly broken."""
        return bool(self._sim.control[0].hopeless)

    @cached_property
    def slot_wait_s(self) -> Floats:
        """Seconds that each request has waited for a decode slot."""
        return np.asarray(self._life.slot_s)

    @property
    def gaps(self) -> np.recarray:
        """All token gaps as RUN records."""
        return self._sim.runs[: self._sim.control[0].runs].view(np.recarray)

    @cached_property
    def duration_s(self) -> float:
        """First arrival to the last event."""
        return float(self._sim.control[0].now - self.arrival_s[0])

    @cached_property
    def met(self) -> NDArray[np.bool_] | None:
        """Whether each request finished within all limits of the SLO on single requests."""
        return None if self.slo is None else limits_met(self, self.slo)

    def tbt(self) -> dict[str, float | None]:
        """Spread of all token gaps, each counted."""
        count, total, _, longest = gap_totals(self.gaps)
        if count == 0:
            return dict.fromkeys(("mean", "p50", "p90", "p99", "max"))
        p50, p90, p99 = gap_quantiles(self.gaps, SHARES)
        return {"mean": total / count, "p50": float(p50), "p90": float(p90), "p99": float(p99), "max": longest}

    def tbt_quantile(self, share: float) -> float:
        """The gap that a share of all gaps do not exceed, seconds; NaN without gaps."""
        return float(gap_quantiles(self.gaps, np.array([share]))[0])

    def breakdown(self) -> dict[str, float]:
        """Mean seconds a finished request spent in each phase; they add up to the mean end-to-end time."""
        done = self.completed
        if not done.any():
            return dict.fromkeys(PHASES, 0.0)
        columns = zip(PHASES, _FIELDS, strict=True)
        return {phase: float(self._life[field][done].mean()) for phase, field in columns}

    @cached_property
    def down_s(self) -> Floats:
        """Seconds that each replica was dead within the run."""
        stations = self._sim.stations
        still = np.where(stations.down > 0, self._sim.control[0].now - stations.down_since, 0.0)
        return np.asarray(stations.down_s + still)

    @cached_property
    def energy_j(self) -> float:
        """Joules of all devices: the idle draw while they are up, and what the steps draw above it."""
        costs, stations = self._sim.scheduler.costs, self._sim.stations
        up = self.duration_s - self.down_s
        return float((stations.joules + costs.idle_w * costs.devices * up).sum())

    @cached_property
    def cost_usd(self) -> float:
        """Dollars of all devices for the duration, at their hourly price."""
        hourly = sum(m.device.price_per_hour * m.group.tp * m.group.pp for m in members_of(self.deployment))
        return hourly * self.duration_s / 3600.0

    @cached_property
    def band(self) -> Band | None:
        """How near the cost model knows the steps of the run; None where it does not say."""
        return None if self._costs is None else band_of(self, self._costs)

    def summary(self) -> dict[str, Any]:
        """The JSON object of ``twofold simulate --json``. Seconds, tokens, requests."""
        control, duration = self._sim.control[0], max(self.duration_s, 1e-12)
        done = self.completed
        replicas = self._sim.scheduler.replicas
        tokens_out = float(self.workload.output_tokens[done].sum())
        return {
            "deployment": str(self.deployment),
            "model": self.model.name,
            "workload": self.workload.name,
            "requests": len(self),
            "completed": int(done.sum()),
            "rejected": int(control.rejected),
            "unfinished": int(len(self) - done.sum() - control.rejected),
            "duration_s": self.duration_s,
            "rate_req_s": self.workload.rate if self.concurrency is None else None,
            "concurrency": self.concurrency,
            "ttft_s": spread(self.ttft_s),
            "kv_arrived_s": spread(self.kv_arrived_s),
            "first_decode_s": spread(self.first_decode_s),
            "tbt_s": self.tbt(),
            "tpot_s": spread(self.tpot_s[done & (self.workload.output_tokens > 1)]),
            "e2e_s": spread(self.e2e_s),
            "slo": None if self.slo is None else str(self.slo),
            "attainment": None if self.slo is None else attainment_of(self, self.slo),
            "throughput_req_s": float(done.sum()) / duration,
            "throughput_tokens_s": tokens_out / duration,
            "goodput_req_s": None if self.met is None else float(self.met.sum()) / duration,
            "steps": int(control.steps),
            "utilisation": float(self._sim.stations.busy_s.sum() / (duration * len(replicas))),
            "kv_occupancy": {"mean": self._kv_mean(duration), "peak": self.kv_peak},
            "queue": self._queue(),
            "preemptions": int(replicas.preemptions.sum()),
            "reused_tokens": int(replicas.reused_tokens.sum()),
            "prefilled_tokens": int(replicas.prefilled_tokens.sum()),
            "split_switches": int(self._sim.stations.switches.sum()),
            "borrowed": int(control.borrowed),
            "transfers": {"count": int(control.transfers), "bytes": float(control.transferred)},
            "faults": {
                "count": int(control.faults),
                "reprefilled": int(control.reprefilled),
                "resumed": int(control.resumed),
            },
            "energy_j": self.energy_j,
            "cost_usd": self.cost_usd,
            "band": None if self.band is None else self.band.to_dict(),
            "breakdown_s": self.breakdown(),
        }

    def _capacity(self) -> Floats:
        replicas = self._sim.scheduler.replicas
        return np.asarray(replicas.total_blocks * replicas.block_tokens, dtype=np.float64)

    def _kv_mean(self, duration: float) -> float:
        return float((self._sim.stations.kv_token_s / (self._capacity() * duration)).mean())

    @property
    def kv_peak(self) -> float:
        """Largest share of its KV blocks that any replica has had in use."""
        return float((self._sim.stations.peak_blocks / self._sim.scheduler.replicas.total_blocks).max())

    def _queue(self) -> dict[str, float]:
        waiting = self._sim.samples.waiting[: self._sim.control[0].samples]
        if len(waiting) == 0:
            return {"mean": 0.0, "max": 0.0}
        return {"mean": float(waiting.mean()), "max": float(waiting.max())}

    @cached_property
    def requests(self) -> "pl.DataFrame":
        """One row a request: what it was, when things happened, where the time went."""
        from twofold.simulate.frames import request_frame

        return request_frame(self)

    @cached_property
    def replicas(self) -> "pl.DataFrame":
        """One row a replica: role, steps, utilisation, KV, energy."""
        from twofold.simulate.frames import replica_frame

        return replica_frame(self)

    @cached_property
    def queue(self) -> "pl.DataFrame":
        """The queue over time: waiting, running, held requests, flows and used blocks at about 400 instants."""
        from twofold.simulate.frames import queue_frame

        return queue_frame(self)

    def write_requests(self, path: str | Path) -> None:
        """Write ``requests`` to a .csv or .parquet file."""
        from twofold.simulate.frames import write_frame

        write_frame(self.requests, Path(path))

    def write_timeline(self, path: str | Path) -> None:
        """Write the steps and transfers as a trace that Perfetto opens (the run must have kept its timeline)."""
        from twofold.simulate.timeline import write_timeline

        write_timeline(self, Path(path))
