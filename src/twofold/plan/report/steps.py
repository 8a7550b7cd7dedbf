"""The timeline of a run as a frame: what each replica did when, under names that a reader knows."""

import math
from collections.abc import Iterable

import numpy as np
import polars as pl

from twofold.errors import SpecError
from twofold.scheduler.state import ROLES
from twofold.simulate.result import Result

TRANSFER = "KV transfer"
TOUCHING_S = 1e-9


def timeline_of(result: Result) -> pl.DataFrame:
    """The steps and transfers of a run by their start, in seconds of the workload.

    what (decode, prompt, decode + prompt, KV transfer), replica, stream (its lane or stage batch), start, end,
    decodes, prompt_tokens, request (that a transfer is of, else -1). SpecError when the run kept no timeline.
    """
    control = result._sim.control[0]
    if not control.logging:
        raise SpecError("timeline", False, "the run must keep its timeline: simulate(..., timeline=True)")
    log = result._sim.log[: control.logs]
    moved = log["kind"] == 1
    decodes, prompts = log["decodes"] > 0, log["prompt_tokens"] > 0
    what = np.select([moved, decodes & prompts, prompts], [TRANSFER, "decode + prompt", "prompt"], "decode")
    columns = ("replica", "start", "end", "decodes", "prompt_tokens")
    frame = pl.DataFrame({name: np.ascontiguousarray(log[name]) for name in columns})
    named = (
        pl.Series("what", what),
        pl.Series("stream", np.ascontiguousarray(log["lane"])),
        pl.Series("request", np.where(moved, log["slot"] % len(result), -1)),
    )
    return frame.with_columns(named).sort("start")


def with_lanes(result: Result, lines: pl.DataFrame) -> pl.DataFrame:
    """Lines of the timeline with ``lane``: the stream's name, such as ``decode replica`` or ``prefill lane``."""
    names = [
        TRANSFER if what == TRANSFER else _lane(result, replica, stream)
        for what, replica, stream in lines.select("what", "replica", "stream").iter_rows()
    ]
    return lines.with_columns(pl.Series("lane", names, dtype=pl.String))


def _lane(result: Result, replica: int, stream: int) -> str:
    found = result._sim.scheduler.replicas[replica]
    if found["lanes"] == 2:
        return ("decode lane", "prefill lane")[stream]
    role = "" if ROLES[found["home_role"]] == "both" else f"{ROLES[found['home_role']]} "
    return f"{role}batch {stream + 1}" if found["stages"] > 1 else f"{role}replica"


def in_order(lanes: Iterable[str]) -> list[str]:
    """Each lane once, in the order in which a request meets them: prefill, transfer, decode."""
    return sorted(set(lanes), key=lambda lane: (not lane.startswith("prefill"), lane != TRANSFER, lane))


def longest_gap(steps: pl.DataFrame) -> float:
    """The longest time between the ends of two decode steps of one stream, the second after 0, seconds.

    Only times without a pause between steps count: over a pause the replica had nothing to decode. NaN without any.
    """
    gaps: list[float] = []
    for stream in steps.sort("start").partition_by("stream"):
        token = before = math.nan
        for start, end, decodes in stream.select("start", "end", "decodes").iter_rows():
            if not start - before <= TOUCHING_S:
                token = math.nan
            if decodes > 0 and end > 0 and not math.isnan(token):
                gaps.append(end - token)
            token, before = (end if decodes > 0 else token), end
    return max(gaps, default=math.nan)
