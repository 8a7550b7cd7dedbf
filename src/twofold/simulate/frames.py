"""The measurements of a run as polars frames, and frames as files."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from twofold.errors import SpecError
from twofold.scheduler.state import REJECTED, ROLES

if TYPE_CHECKING:
    from twofold.simulate.result import Result

TIMES = ("start", "first_token", "kv_arrived", "first_decode", "finish")
PHASE_COLUMNS = {
    "queued_s": "queued_s",
    "prefill_s": "prefill_s",
    "stall_s": "stall_s",
    "transfer_s": "transfer_s",
    "slot_s": "decode_wait_s",
    "decode_s": "decode_s",
}


def request_frame(result: "Result") -> pl.DataFrame:
    """One row a request, times in seconds since the start of the workload (null: never happened)."""
    life = result._sim.life
    requests: Any = result._sim.scheduler.requests[: len(result)]
    twins: Any = result._sim.scheduler.requests[len(result) :]
    preemptions = requests.preemptions + (twins.preemptions if len(twins) else 0)
    columns: dict[str, np.ndarray] = {
        "arrival_s": result.arrival_s,
        "prompt_tokens": result.workload.prompt_tokens,
        "output_tokens": result.workload.output_tokens,
    }
    columns |= {f"{name}_at_s": life[name] for name in TIMES}
    columns |= {
        "ttft_s": result.ttft_s,
        "kv_arrived_s": result.kv_arrived_s,
        "first_decode_s": result.first_decode_s,
        "tpot_s": result.tpot_s,
        "max_tbt_s": result.max_tbt_s,
        "e2e_s": result.e2e_s,
    }
    columns |= {shown: life[field] for field, shown in PHASE_COLUMNS.items()}
    columns |= {
        "prefill_replica": life.prefiller,
        "decode_replica": np.where(life.decoder >= 0, life.decoder, life.prefiller),
        "reused_tokens": requests.reused,
        "preemptions": preemptions,
        "retries": life.retries,
    }
    frame = pl.DataFrame({name: np.ascontiguousarray(values) for name, values in columns.items()})
    status = np.where(result.completed, "completed", np.where(requests.state == REJECTED, "rejected", "unfinished"))
    frame = frame.with_columns(pl.Series("status", status), pl.int_range(pl.len()).alias("request"))
    if result.met is not None:
        frame = frame.with_columns(pl.Series("met_slo", result.met))
    return frame.with_columns(pl.selectors.float().fill_nan(None)).select("request", pl.exclude("request"))


def replica_frame(result: "Result") -> pl.DataFrame:
    """One row a replica: what it did and how full it was."""
    sim, duration = result._sim, max(result.duration_s, 1e-12)
    replicas, stations, count = sim.scheduler.replicas, sim.stations, len(sim.stations)
    capacity = replicas.total_blocks * replicas.block_tokens
    return pl.DataFrame(
        {
            "replica": np.arange(count),
            "role": [ROLES[role] for role in replicas.home_role],
            "utilisation": stations.busy_s / duration,
            "steps": np.ascontiguousarray(stations.steps),
            "prefilled_tokens": np.ascontiguousarray(replicas.prefilled_tokens),
            "decoded_tokens": np.ascontiguousarray(stations.decode_tokens),
            "reused_tokens": np.ascontiguousarray(replicas.reused_tokens),
            "kv_capacity_tokens": capacity,
            "kv_mean": stations.kv_token_s / (capacity * duration),
            "kv_peak": stations.peak_blocks / replicas.total_blocks,
            "preemptions": np.ascontiguousarray(replicas.preemptions),
            "split_switches": np.ascontiguousarray(stations.switches),
            "link_out_bytes": np.ascontiguousarray(sim.ports.sent[:count]),
            "link_in_bytes": np.ascontiguousarray(sim.ports.sent[count : 2 * count]),
            "failures": np.ascontiguousarray(stations.failures),
            "down_s": result.down_s,
            "energy_above_idle_j": np.ascontiguousarray(stations.joules),
        }
    )


def queue_frame(result: "Result") -> pl.DataFrame:
    """The state of the deployment at 200 to 400 regular instants from the first arrival on."""
    samples = result._sim.samples[: result._sim.control[0].samples]
    names = ("time", "waiting", "running", "held", "flows", "used_blocks")
    frame = pl.DataFrame({name: np.ascontiguousarray(samples[name]) for name in names})
    return frame.rename({"time": "time_s"})


def write_frame(frame: pl.DataFrame, path: Path) -> None:
    """Write a frame as .csv or .parquet, by the ending of ``path``; SpecError for any other."""
    if path.suffix not in (".csv", ".parquet"):
        raise SpecError("per-request", str(path), "accepted: a file name that ends in .csv or .parquet")
    try:
        if path.suffix == ".csv":
            frame.write_csv(path)
        else:
            frame.write_parquet(path)
    except OSError as error:
        raise SpecError("per-request", str(path), f"cannot be written: {error.strerror or error}") from error
