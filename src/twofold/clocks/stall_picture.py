"""The picture of a measured stall: when the tokens of one stream came, a row a policy."""

from collections.abc import Sequence

import altair as alt
import numpy as np
import polars as pl

from twofold.clocks.stall import Compared
from twofold.engine.stall import Scene
from twofold.plan.report.drawing import TEXT_PX, Drawing, Size
from twofold.plan.report.palette import INK, LIMIT, MUTED, PHASES

NAME_PX, ROW_PX, TICK_PX, GAP_PX, NOTE_PX = 150, 40, 18, 8, 170
BEFORE, AFTER = 0.12, 1.12
WIDE = Size(760, 0)


def stall_drawing(scene: Scene, model: str, compared: Sequence[Compared]) -> Drawing:
    """One row a deployment: a tick for each token of a stream, its longest gap, and the first token of the prompt."""
    told = " ".join(
        f"{each.deployment}: longest gap {ms(each.figures['tbt_max_s'])}, first token of the prompt after "
        f"{ms(each.figures['ttft_s'])}."
        for each in compared
    )
    return Drawing(
        "stalls",
        f"A prompt of {scene.prompt:,} tokens arrives while {scene.streams} streams decode ({model}, measured)",
        f"Times of the tokens of one stream under each policy. {told}",
        lambda size: _chart(compared, size),
        wide=WIDE,
    )


def ms(seconds: float) -> str:
    """Seconds as whole milliseconds."""
    return f"{seconds * 1e3:,.0f} ms"


def _chart(compared: Sequence[Compared], size: Size) -> alt.LayerChart:
    names = [each.deployment.removeprefix("1B,") for each in compared]
    end = AFTER * max(each.typical.ttft_s for each in compared) * 1e3
    window = [-BEFORE * end, end]
    x = alt.X(
        "at:Q", scale=alt.Scale(domain=window, nice=False), axis=alt.Axis(title="ms after the arrival", grid=False)
    )
    axis = alt.Axis(title=None, labelColor=INK.light, labelLimit=NAME_PX, minExtent=NAME_PX - 8, grid=False)
    y = alt.Y("policy:N", sort=names, axis=axis)
    tokens, gaps, firsts, notes = _frames(compared, names, window)
    gap = alt.Chart(gaps).mark_bar(clip=True, height=GAP_PX, color=PHASES["stall"].light).encode(x=x, x2="until:Q", y=y)
    tick = alt.Chart(tokens).mark_tick(clip=True, size=TICK_PX, thickness=1.5, color=PHASES["prefill"].light)
    first = alt.Chart(firsts).mark_point(
        clip=True, shape="triangle-down", size=70, filled=True, color=INK.light, yOffset=-TICK_PX + 3
    )
    text = alt.Chart(notes).mark_text(align="left", fontSize=TEXT_PX, color=MUTED.light, lineBreak="\n", dx=8)
    arrival = alt.Chart(pl.DataFrame({"at": [0.0]})).mark_rule(strokeDash=[4, 3], color=LIMIT.light).encode(x=x)
    layers = alt.layer(
        arrival, gap, tick.encode(x=x, y=y), first.encode(x=x, y=y), text.encode(x=x, y=y, text="note:N")
    )
    return layers.properties(width=size.width - NAME_PX - NOTE_PX, height=ROW_PX * len(names))


def _frames(compared: Sequence[Compared], names: Sequence[str], window: Sequence[float]) -> list[pl.DataFrame]:
    """Tokens of the first stream, its longest gap after the arrival, the prompt's first token, and both in words."""
    rows: list[list[dict[str, object]]] = [[], [], [], []]
    for name, each in zip(names, compared, strict=True):
        times = each.typical.tokens_s[0] * 1e3
        longest = int(np.where(times[1:] > 0.0, np.diff(times), 0.0).argmax())
        first, seen = each.typical.ttft_s * 1e3, times[(times >= window[0]) & (times <= window[1])]
        rows[0] += [{"policy": name, "at": float(at)} for at in seen]
        rows[1].append({"policy": name, "at": float(times[longest]), "until": float(times[longest + 1])})
        rows[2].append({"policy": name, "at": first})
        note = f"longest gap {ms(each.figures['tbt_max_s'])}\nfirst token {ms(each.figures['ttft_s'])}"
        rows[3].append({"policy": name, "at": window[1], "note": note})
    return [pl.DataFrame(row) for row in rows]
