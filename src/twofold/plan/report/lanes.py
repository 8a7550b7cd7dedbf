"""The pictures of time: the lanes of a stall, and the phases of a request."""

import altair as alt
import polars as pl

from twofold.plan.report.drawing import TEXT_PX, Drawing, Size
from twofold.plan.report.evidence import Evidence
from twofold.plan.report.palette import INK, LIMIT, MUTED, PAPER, PHASES, STEPS, Shade
from twofold.plan.report.scene import AFTER_S, BEFORE_S, Act
from twofold.plan.report.words import milliseconds, number

LANE_PX, BAR_PX, NAME_PX, CHARACTER_PX = 34, 18, 106, 6.4
PHASE_NAMES = {
    "queued": "queued",
    "prefill": "prefill computing",
    "stall": "behind other prefills",
    "transfer": "KV transfer",
    "decode_wait": "waiting to decode",
    "decode": "decoding",
}


def scene_drawing(evidence: Evidence) -> Drawing:
    """What the replicas do when a long prompt arrives: in the deployment that stalls, then in the chosen one."""
    scene = evidence.scene
    told = " ".join(
        f"{act.deployment}: longest gap {milliseconds(act.longest_gap)} ms, first token after "
        f"{milliseconds(act.first_token)} ms."
        for act in scene.acts
    )
    return Drawing(
        "stall",
        f"A prompt of {scene.prompt_tokens:,} tokens arrives at {number(scene.rate)} requests/s",
        f"Steps of the replicas that serve a prompt of {scene.prompt_tokens:,} tokens, over one second. {told}",
        lambda size: _scene(evidence, size),
        wide=Size(720, 0),
    )


def phase_drawing(evidence: Evidence) -> Drawing:
    """The mean time of a request by phase: all of it, and without the decoding that dwarfs the rest."""
    return Drawing(
        "phases",
        f"Where the time of a request goes at {number(evidence.rate)} requests/s",
        "Stacked bars of the mean time in each phase, one bar for each kind. The table below has the numbers.",
        lambda size: _phases(evidence, size),
        wide=Size(720, 0),
    )


def _legend(shades: dict[str, Shade], names: list[str], size: Size) -> alt.Color:
    scale = alt.Scale(domain=names, range=[shade.light for shade in shades.values()])
    return alt.Color("what:N", scale=scale, legend=alt.Legend(columns=2 if size.narrow else len(names)))


def _scene(evidence: Evidence, size: Size) -> alt.VConcatChart:
    longest = max(len(lane) for act in evidence.scene.acts for lane in act.lanes)
    names = round(CHARACTER_PX * longest) + 16
    acts = [_act(act, size, names, last=act is evidence.scene.acts[-1]) for act in evidence.scene.acts]
    return alt.vconcat(*acts, spacing=18)


def _act(act: Act, size: Size, names: int, last: bool) -> alt.LayerChart:
    bars = act.bars.with_columns(pl.col("start", "end") * 1e3)
    window = [-BEFORE_S * 1e3, AFTER_S * 1e3]
    axis = alt.Axis(title="ms after the arrival" if last else None, grid=False, tickCount=4 if size.narrow else 8)
    x = alt.X("start:Q", scale=alt.Scale(domain=window, nice=False), axis=axis)
    lane_axis = alt.Axis(title=None, labelColor=INK.light, labelLimit=names, minExtent=names - 8, grid=False)
    y = alt.Y("lane:N", sort=act.lanes, axis=lane_axis)
    colour = _legend(STEPS, list(STEPS), size)
    steps = alt.Chart(bars).mark_bar(clip=True, height=BAR_PX, stroke=PAPER.light, strokeWidth=0.6)
    steps = steps.encode(x=x, x2="end:Q", y=y, color=colour)
    long = alt.Chart(bars.filter("long")).mark_bar(clip=True, height=3, yOffset=BAR_PX / 2 + 3, color=INK.light)
    long = long.encode(x=x, x2="end:Q", y=y)
    arrival = alt.Chart(pl.DataFrame({"start": [0.0]})).mark_rule(strokeDash=[4, 3], color=LIMIT.light).encode(x=x)
    told = [f"longest gap {milliseconds(act.longest_gap)} ms", f"first token {milliseconds(act.first_token)} ms"]
    subtitle = told if size.narrow else ", ".join(told)
    title = alt.Title(str(act.deployment), subtitle=subtitle, fontSize=13, subtitleFontSize=TEXT_PX)
    layers = alt.layer(steps, long, arrival)
    return layers.properties(width=size.width - names - 12, height=LANE_PX * len(act.lanes), title=title)


def _phases(evidence: Evidence, size: Size) -> alt.HConcatChart | alt.VConcatChart:
    width = size.width - NAME_PX - 18 if size.narrow else (size.width - NAME_PX - 50) // 2
    waiting = [phase for phase in PHASES if phase != "decode"]
    whole = _bars(evidence, list(PHASES), "all of it, ms", size, width)
    rest = _bars(evidence, waiting, "all but decoding, ms", size, width, named=size.narrow)
    return alt.vconcat(whole, rest, spacing=16) if size.narrow else alt.hconcat(whole, rest, spacing=30)


def _kinds(evidence: Evidence) -> list[str]:
    return [champion.kind for champion in evidence.champions]


def _bars(
    evidence: Evidence, phases: list[str], title: str, size: Size, width: int, named: bool = True
) -> alt.LayerChart:
    kinds = _kinds(evidence)
    frame = evidence.phases.filter(pl.col("phase").is_in(phases)).with_columns(
        pl.col("seconds").mul(1e3).alias("ms"),
        pl.col("phase").replace_strict(PHASE_NAMES).alias("what"),
        pl.col("phase").replace_strict({phase: place for place, phase in enumerate(PHASES)}).alias("place"),
    )
    sums = frame.group_by("kind", maintain_order=True).agg(pl.col("ms").sum())
    top = 1.16 * max(float(sums["ms"].max() or 0.0), 1e-3)  # type: ignore[arg-type]
    axis = (
        alt.Axis(title=None, labelColor=INK.light, labelLimit=NAME_PX, minExtent=NAME_PX - 14, grid=False)
        if named
        else None
    )
    y = alt.Y("kind:N", sort=kinds, axis=axis)
    x_axis = alt.Axis(title=title, tickCount=4, format=",~r")
    x = alt.X("ms:Q", scale=alt.Scale(domain=[0, top], nice=False), axis=x_axis)
    bars = alt.Chart(frame).mark_bar(height=BAR_PX, stroke=PAPER.light, strokeWidth=0.6)
    bars = bars.encode(x=x, y=y, color=_legend(PHASES, list(PHASE_NAMES.values()), size), order="place:Q")
    totals = sums.with_columns(pl.col("ms").map_elements(number, return_dtype=pl.String).alias("total"))
    text = alt.Chart(totals).mark_text(align="left", dx=5, fontSize=TEXT_PX, color=MUTED.light)
    layers = alt.layer(bars, text.encode(x=x, y=y, text="total:N"))
    return layers.properties(width=width, height=28 * len(kinds))
