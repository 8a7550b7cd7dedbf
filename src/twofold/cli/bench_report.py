"""The screens of loads on servers: one load, several side by side, goodputs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from twofold.cli.comparison import COLUMNS, OTHER, SPARE, cells
from twofold.cli.report import counted, latencies, workload_line
from twofold.cli.show import facts, milliseconds, number, percent, spared, table

if TYPE_CHECKING:
    from twofold.spec.workload import Workload

Summary = Mapping[str, Any]
NOTE = "latencies in ms; * best of the column"
LENGTH_FIELDS = {"ignore_eos", "min_tokens"}


def load_report(summary: Summary) -> str:
    """Everything that one load shows: the server, how it went, the latencies, how much the client distorts."""
    return "\n\n".join((server_line(summary) + "\n\n" + facts(outcome(summary)), latencies(summary)))


def head(workload: "Workload", concurrency: int | None) -> str:
    """A workload in one line, without a rate where requests follow one another."""
    if concurrency is None:
        return workload_line(workload)
    prompt, output = float(workload.prompt_tokens.mean()), float(workload.output_tokens.mean())
    return (
        f"{workload.name}: {len(workload):,} requests, {number(prompt)} prompt and {number(output)} output tokens "
        "on average"
    )


def server_line(summary: Summary) -> str:
    """A server in one line, with the kind of load."""
    at_once = summary["concurrency"]
    return f"{summary['url']}: {summary['model']}, " + ("open loop" if at_once is None else f"{at_once} at once")


def outcome(summary: Summary) -> dict[str, str]:
    """How a load went, a line a subject; a subject without anything to tell is left out."""
    lines = {
        "requests": counted(summary),
        "throughput": f"{number(summary['throughput_req_s'])} req/s, "
        f"{number(summary['throughput_tokens_s'])} output tokens/s",
    }
    if summary["slo"] is not None:
        lines["attainment"] = f"{percent(summary['attainment'])} of requests within {summary['slo']}"
    for kind, failure in summary["failures"].items():
        lines[kind] = f"{failure['count']:,} failed, the first: {failure['message']}"
    return lines | client_lines(summary["client"])


def client_lines(client: Summary) -> dict[str, str]:
    """What the client itself cost, and where the answers are not what was asked for."""
    late = client["late_s"]
    lines = {
        "client": f"{percent(client['cpu_share'])} of a core; sent late by {milliseconds(late['mean'])} ms on average, "
        f"{milliseconds(late['p99'])} ms at p99, {milliseconds(late['max'])} ms at most"
    }
    odd = {
        "prompts": (client["other_prompts"], "have another length than asked for"),
        "outputs": (client["other_outputs"], "have another length than asked for" + _unforced(client)),
        "tokens": (client["untimed_tokens"], "came without a time of their own, so gaps are of chunks"),
    }
    return lines | {subject: f"{count:,} {text}" for subject, (count, text) in odd.items() if count}


def _unforced(client: Summary) -> str:
    forced = LENGTH_FIELDS & set(client["fields"])
    return "" if forced else "; the server takes neither ignore_eos nor min_tokens"


def compared(summaries: Sequence[Summary]) -> str:
    """A table with a line a server; ``*`` marks what is best in its column where the servers differ."""
    shown = [column for column in COLUMNS if any(column.value(one) is not None for one in summaries)]
    marked = [cells(column, summaries) for column in shown]
    titles = ["server", "completed", *(column.head + OTHER for column in shown), "sent late p99"]
    rows = [
        [
            one["url"],
            f"{one['completed']:,}/{one['requests']:,}",
            *(column[place] for column in marked),
            milliseconds(one["client"]["late_s"]["p99"]),
        ]
        for place, one in enumerate(summaries)
    ]
    failed = [f"{one['url']}: {subject} {line}" for one in summaries for subject, line in odd_lines(one).items()]
    return "\n".join(["", table(titles, rows, spare=spared(titles, ("sent late p99", *SPARE))), "", NOTE, *failed])


def odd_lines(summary: Summary) -> dict[str, str]:
    """The lines of :func:`outcome` that tell of failures, or of answers that are not what was asked for."""
    usual = {"requests", "throughput", "attainment", "client"}
    return {subject: line for subject, line in outcome(summary).items() if subject not in usual}


def goodput_table(found: Sequence[Summary]) -> str:
    """A line a probe, and the goodput of each server."""
    rows = [
        [one["url"], number(probe["rate_req_s"]), percent(probe["attainment"]), probe["failed_by"] or "sustained"]
        for one in found
        for probe in sorted(one["probes"], key=lambda probe: float(probe["rate_req_s"]))
    ]
    lines = [
        f"{one['url']}: goodput {number(one['goodput_req_s'])} req/s within {one['slo']}; above, {one['limit']} fails"
        for one in found
    ]
    return "\n".join(["", table(["server", "req/s", "attainment", "verdict"], rows, left=(0, 3)), "", *lines])
