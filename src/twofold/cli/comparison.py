"""The screen of several runs of one workload: one line a deployment, the best of each column marked."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from twofold.cli.report import known_within
from twofold.cli.show import milliseconds, number, percent, spared, table

Summary = Mapping[str, Any]


class Column(NamedTuple):
    """A column: its head, the value of a run, how that is written, and whether more is better."""

    head: str
    value: Callable[[Summary], float | None]
    written: Callable[[float | None], str]
    more_is_better: bool = False


def _latency(head: str, metric: str, statistic: str) -> Column:
    return Column(f"{head} {statistic}", lambda run: run[metric][statistic], milliseconds)


COLUMNS = (
    Column("attainment", lambda run: run["attainment"], percent, more_is_better=True),
    _latency("TTFT", "ttft_s", "p50"),
    _latency("TTFT", "ttft_s", "p99"),
    _latency("TPOT", "tpot_s", "p50"),
    _latency("TPOT", "tpot_s", "p99"),
    _latency("TBT", "tbt_s", "p99"),
    _latency("e2e", "e2e_s", "p50"),
    Column("tokens/s", lambda run: run["throughput_tokens_s"], number, more_is_better=True),
    Column("$", lambda run: run["cost_usd"], number),
)
SPARE = ("$", "e2e p50", "TPOT p50", "TTFT p50", "devices")
"""What a narrow terminal does without, the first one first."""
BEST, OTHER = "*", " "


def comparison(runs: Sequence[Summary]) -> str:
    """A table with a line a run; ``*`` marks what is best in its column where the runs differ."""
    shown = [column for column in COLUMNS if any(column.value(run) is not None for run in runs)]
    head = ["deployment", "devices", *(column.head + OTHER for column in shown)]
    marked = [cells(column, runs) for column in shown]
    rows = [
        [run["deployment"], str(run["devices"]), *(cells[place] for cells in marked)] for place, run in enumerate(runs)
    ]
    near = known_within(runs)
    said = ["latencies in ms; * best of the column", *([f"step times are {near}"] if near else [])]
    return "\n".join([table(head, rows, spare=spared(head, SPARE)), "", *said])


def cells(column: Column, runs: Sequence[Summary]) -> list[str]:
    """A column's cells, the best of them marked; none where all read the same."""
    values = [column.value(run) for run in runs]
    known = [value for value in values if value is not None and value == value]
    best = column.written((max if column.more_is_better else min)(known)) if known else ""
    texts = [column.written(value) for value in values]
    differ = len(set(texts)) > 1
    return [text + (BEST if differ and text == best else OTHER) for text in texts]
