"""Draw docs/pictures/stall.svg: a long prompt reaches a GPU that is decoding, under each policy.

Lecture 7, section 1.3: 32 requests decode (Llama-3-8B on H100) when a prompt of 4,096 tokens arrives. Every bar is one
step of a simulated run, read from its timeline. Needs the extra: ``pip install 'twofold[pictures]'``.

    python examples/stall_picture.py docs/pictures/stall.svg
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import altair as alt
import numpy as np
import polars as pl

import twofold

DECODES, PROMPT, OUTPUT = 32, 256, 400
LONG_PROMPT, ARRIVES_S = 4096, 0.5
FIRST_MS, LAST_MS = -25, 175
DEPLOYMENTS = {
    "1B,prefill-first": ["prefill-first"],
    "1B,mixed": ["mixed"],
    "1B,chunked=512": ["chunked=512"],
    "1B,multiplexed": ["multiplexed, decode lane", "multiplexed, prefill lane"],
    "1P1D": ["1P1D, prefill replica", "1P1D, decode replica"],
}
COLOURS = {"decode": "#4c78a8", "prefill": "#e45756", "decode + prefill": "#b279a2", "transfer of KV": "#a0a0a0"}
TITLE = f"A prompt of {LONG_PROMPT:,} tokens arrives while {DECODES} requests decode"
SUBTITLE = "Llama-3-8B on H100, simulated; a bar is a step, 1P1D uses two devices"


class Run(NamedTuple):
    """One deployment: its bars (lane, kind, start and end in ms from the arrival) and its two numbers in ms."""

    bars: list[dict[str, Any]]
    longest_gap_ms: float
    first_token_ms: float

    @property
    def note(self) -> str:
        """The numbers as they stand in the picture."""
        return f"longest gap {self.longest_gap_ms:.0f} ms, first token after {self.first_token_ms:.0f} ms"


def workload() -> twofold.Workload:
    """The requests that decode from the start, and the long prompt, which is the last."""
    arrivals, prompts = np.zeros(DECODES + 1), np.full(DECODES + 1, PROMPT, np.int32)
    arrivals[-1], prompts[-1] = ARRIVES_S, LONG_PROMPT
    return twofold.Workload("stall", arrivals, prompts, np.full(DECODES + 1, OUTPUT, np.int32))


def run(deployment: str) -> Run:
    """Simulate one deployment step by step; the gaps are those between decode steps after the arrival."""
    where = twofold.deployment(deployment, model="llama-3-8b", device="H100")
    result = twofold.simulate(workload(), where, timeline=True, step_by_step=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "timeline.json"
        result.write_timeline(path)
        events = json.loads(path.read_text())["traceEvents"]
    bars = [bar(DEPLOYMENTS[deployment], event) for event in events if event.get("cat") in ("step", "transfer")]
    ends = np.sort([each["end"] for each in bars if "decode" in each["kind"]])
    gaps = np.diff(ends)[ends[1:] > 0]
    return Run(bars, float(gaps.max()), float(result.ttft_s[-1]) * 1e3)


def bar(lanes: list[str], event: dict[str, Any]) -> dict[str, Any]:
    """A step or a transfer of the timeline as a bar of the picture."""
    moved = event["cat"] == "transfer"
    place = 0 if moved else event["pid"] + event["tid"]
    start = event["ts"] / 1e3 - ARRIVES_S * 1e3
    kind = "transfer of KV" if moved else event["name"]
    return {"lane": lanes[place], "kind": kind, "start": start, "end": start + event["dur"] / 1e3}


def visible(each: dict[str, Any]) -> bool:
    """Whether a bar lies in the part of the run that is drawn."""
    return bool(each["end"] > FIRST_MS and each["start"] < LAST_MS)


def chart(runs: dict[str, Run]) -> alt.TopLevelMixin:
    """The picture: one row a lane, steps as bars, the numbers of each deployment beside its first row."""
    rows = [lane for lanes in DEPLOYMENTS.values() for lane in lanes]
    bars = [each for found in runs.values() for each in found.bars if visible(each)]
    notes = [{"lane": DEPLOYMENTS[name][0], "at": LAST_MS + 5, "note": found.note} for name, found in runs.items()]
    scale = alt.Scale(domain=[FIRST_MS, LAST_MS], nice=False)
    lane = alt.Y("lane:N", sort=rows, title=None, axis=alt.Axis(labelLimit=200, ticks=False, domain=False))
    colour = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())),
        legend=alt.Legend(title=None, orient="bottom"),
    )
    steps = (
        alt.Chart(pl.DataFrame(bars))
        .mark_bar(clip=True, stroke="white", strokeWidth=0.7, height=16)
        .encode(x=alt.X("start:Q", scale=scale, title="ms after the arrival"), x2="end:Q", y=lane, color=colour)
    )
    text = alt.Chart(pl.DataFrame(notes)).mark_text(align="left", fontSize=11)
    arrival = alt.Chart(pl.DataFrame({"at": [0.0]})).mark_rule(strokeDash=[4, 3]).encode(x="at:Q")
    layers = steps + arrival + text.encode(x="at:Q", y=lane, text="note:N")
    title = alt.Title(TITLE, subtitle=SUBTITLE, anchor="start")
    sized = layers.properties(width=480, height=alt.Step(26), title=title, background="white", padding=12)
    return sized.configure_view(stroke=None)


if __name__ == "__main__":
    chart({name: run(name) for name in DEPLOYMENTS}).save(sys.argv[1])
