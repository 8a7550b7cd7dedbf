"""The tables of the report as HTML; every cell that a user may have written is escaped here."""

from collections.abc import Iterable, Sequence
from html import escape

import polars as pl

from twofold.plan.report.evidence import TABLED, Evidence
from twofold.plan.report.kinds import kind_of
from twofold.plan.report.lanes import PHASE_NAMES
from twofold.plan.report.marks import interval_bar, kind_mark, kind_name, swatch
from twofold.plan.report.palette import PHASES
from twofold.plan.report.words import ABSENT, METRICS, milliseconds, number, percent

LISTED, FRONT_LISTED = 15, 12
HOUR_S = 3600.0
RANKING = (
    "#",
    "deployment",
    "goodput, req/s",
    "",
    "per device",
    "$/h",
    "$/1M requests",
    "W, TDP",
    "SLO met",
    "limited by",
    "trap",
    "ties",
)


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[int] = (0,), wraps: bool = False
) -> str:
    """A table with a caption, in a region that scrolls sideways by itself; columns but those ``left`` are numbers.

    The first cell of a row is its heading. Text is escaped, :class:`Html` is not.
    """
    classes = [' class="left"' if column in left else "" for column in range(len(head))]
    top = "".join(f'<th scope="col"{each}>{_cell(text)}</th>' for each, text in zip(classes, head, strict=True))
    body = "".join(f"<tr>{_row(row, classes)}</tr>\n" for row in rows)
    region = f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}">'
    name = ' class="wraps"' if wraps else ""
    seen = f'<p class="caption" aria-hidden="true">{escape(caption)}</p>'
    heard = f"<caption>{escape(caption)}</caption>"
    return f"{seen}{region}<table{name}>{heard}<thead><tr>{top}</tr></thead>\n<tbody>{body}</tbody></table></div>"


def _row(row: Sequence[str], classes: Sequence[str]) -> str:
    first, *others = zip(row, classes, strict=True)
    cells = "".join(f"<td{each}>{_cell(text)}</td>" for text, each in others)
    return f'<th scope="row"{first[1]}>{_cell(first[0])}</th>{cells}'


def _cell(text: str) -> str:
    return str(text) if isinstance(text, Html) else escape(text)


def ranking(evidence: Evidence) -> str:
    """The measured candidates, best first: ``LISTED`` and the best of each kind, the others folded away."""
    ranks = range(1, len(evidence.plan.candidates) + 1)
    champions = {champion.rank for champion in evidence.champions}
    shown = [rank for rank in ranks if rank <= LISTED or rank in champions]
    rest = [rank for rank in ranks if rank not in shown]
    text = table("The best, and the best of each kind", RANKING, _ranked(evidence, shown), left=(1, 3, 9, 11))
    if not rest:
        return text
    more = table("The others that were measured", RANKING, _ranked(evidence, rest), left=(1, 3, 9, 11))
    return f"{text}<details><summary>{len(rest):,} more that were measured</summary>{more}</details>"


def _ranked(evidence: Evidence, ranks: Iterable[int]) -> Iterable[Sequence[str]]:
    rows = evidence.plan.rows
    top = max(max(row["high_req_s"] or 0.0, row["goodput_req_s"]) for row in rows)
    for rank in ranks:
        row, kind = rows[rank - 1], kind_of(evidence.plan.candidates[rank - 1].deployment)
        goodput, low, high = row["goodput_req_s"], row["low_req_s"], row["high_req_s"]
        yield (
            str(rank),
            Html(f"{kind_mark(kind)} <code>{escape(row['deployment'])}</code>"),
            interval(goodput, low, high),
            Html(interval_bar(goodput, low, high, top, kind)),
            number(row["goodput_per_device_req_s"]),
            number(row["usd_per_hour"] or None),
            number(per_million(row["usd_per_hour"], goodput)),
            number(row["watts"]),
            percent(row["attainment"] if evidence.plan.slo.limits else None),
            row["limit"],
            "" if row["trap_req_s"] is None else number(row["trap_req_s"]),
            ", ".join(map(str, row["swaps_with"])),
        )


def interval(value: float, low: float | None, high: float | None) -> str:
    """A goodput with its interval, ``9.80 (9.50–10.1)``."""
    return number(value) if low is None or high is None else f"{number(value)} ({number(low)}–{number(high)})"


def per_million(usd_per_hour: float, rate: float) -> float | None:
    """Dollars for a million requests at ``rate`` requests/s; None without a price or a rate."""
    return usd_per_hour / (rate * HOUR_S) * 1e6 if usd_per_hour and rate else None


def cast(evidence: Evidence) -> str:
    """The best deployment of each kind, which the pictures compare."""
    rows = (
        (
            Html(kind_name(each.kind)),
            Html(f"<code>{escape(each.name)}</code>"),
            str(each.rank or ABSENT),
            number(each.candidate.found.rate),
        )
        for each in evidence.champions
    )
    return table("The best of each kind", ("kind", "deployment", "rank", "goodput, req/s"), rows, left=(0, 1))


def curve_table(evidence: Evidence) -> str:
    """Attainment over the offered rate, a column a kind."""
    kinds = [champion.kind for champion in evidence.champions]
    rows = []
    for rate in evidence.curves["rate"].unique(maintain_order=True):
        at = evidence.curves.filter(pl.col("rate") == rate).rows_by_key("kind", named=True, unique=True)
        rows.append([number(rate), *(f"{percent(at[kind]['share'])}: {number(at[kind]['within'])}" for kind in kinds)])
    head = ["offered, req/s", *(Html(kind_name(kind)) for kind in kinds)]
    return table(f"Share of {evidence.judged}: requests/s that keep every limit", head, rows)


def percentile_table(evidence: Evidence) -> str:
    """P50, P90 and P99 of each metric at the goodput of the best, ms, a row a kind."""
    metrics = evidence.percentiles["metric"].unique(maintain_order=True).to_list()
    rows = []
    for champion in evidence.champions:
        mine = evidence.percentiles.filter(pl.col("kind") == champion.kind).select(*TABLED).rows()
        rows.append([Html(kind_name(champion.kind)), *(milliseconds(value) for row in mine for value in row)])
    caption = f"Percentiles at {number(evidence.rate)} requests/s, ms; a dash where requests never got there"
    return table(
        caption, ["kind", *(f"{METRICS[metric]} {name.upper()}" for metric in metrics for name in TABLED)], rows
    )


def phase_table(evidence: Evidence) -> str:
    """Mean milliseconds of each phase, a row a kind."""
    rows = []
    for champion in evidence.champions:
        mine = evidence.phases.filter(pl.col("kind") == champion.kind)
        spent = dict(mine.select("phase", "seconds").iter_rows())
        times = (milliseconds(spent[phase]) for phase in PHASES)
        rows.append([Html(kind_name(champion.kind)), *times, milliseconds(sum(spent.values()))])
    head = ["kind", *(Html(f"{swatch(PHASES[phase])} {name}") for phase, name in PHASE_NAMES.items()), "in all"]
    return table("Mean time of a finished request, ms", head, rows)


def front_table(evidence: Evidence) -> str:
    """The deployments that no other beats in all four of cost, energy and the two tails."""
    front = evidence.tails.filter("front").sort("rank")
    rows = [
        (
            Html(f"{kind_mark(row['kind'])} <code>{escape(row['deployment'])}</code>"),
            str(row["rank"]),
            number(row["goodput"]),
            number(row["usd"] or None),
            number(row["joules"]),
            milliseconds(row["ttft_p99"]),
            milliseconds(row["tbt_p99"]),
        )
        for row in front.head(FRONT_LISTED).iter_rows(named=True)
    ]
    head = ("deployment", "rank", "goodput, req/s", "$/h per req/s", "J/request", "P99 TTFT, ms", "P99 TBT, ms")
    said = f"; {FRONT_LISTED} of {len(front)}" if len(front) > FRONT_LISTED else ""
    return table(f"Beaten by none in cost, energy and both tails together{said}", head, rows)


def bound_table(evidence: Evidence) -> str:
    """What the bound allowed the best of each kind, and what was measured."""
    rows = []
    for champion in evidence.champions:
        bound, rate = champion.candidate.bound, champion.candidate.found.rate
        reached = percent(rate / bound) if bound else ABSENT
        name = Html(f"{kind_mark(champion.kind)} <code>{escape(champion.name)}</code>")
        rows.append((name, number(bound), champion.candidate.bound_limit, number(rate), reached))
    head = ("deployment", "bound, req/s", "set by", "measured, req/s", "reached")
    return table("The optimistic bound of the best of each kind", head, rows, left=(0, 2))


def facts(caption: str, pairs: Iterable[tuple[str, str]]) -> str:
    """Two columns: what, and its value in words."""
    return table(caption, ("what", "value"), pairs, left=(0, 1), wraps=True)
