"""The screen of one simulated run."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from twofold.cli.show import bar, facts, milliseconds, number, percent, table

if TYPE_CHECKING:
    from twofold.simulate.result import Result
    from twofold.spec.deployment import Deployment
    from twofold.spec.workload import Workload

Summary = Mapping[str, Any]

STATISTICS = ("mean", "p50", "p90", "p99", "max")
REGIMES = {"prompt": "prompts", "decode": "decodes", "mixed": "both in one step"}
LATENCIES = {"TTFT": "ttft_s", "TBT": "tbt_s", "TPOT": "tpot_s", "end to end": "e2e_s"}
PHASES = {
    "queued": "queued",
    "prefill": "prefill computing",
    "stall": "behind other prefills",
    "transfer": "KV transfer",
    "decode_wait": "waiting for a decode slot",
    "decode": "decoding",
}


def run_report(result: "Result") -> str:
    """Everything that a run shows: what ran, how it went, latencies and where the time went."""
    summary = result.summary()
    head = f"{workload_line(result.workload, result.concurrency)}\n{deployment_line(result.deployment)}"
    return "\n\n".join((head, facts(outcome(summary)), latencies(summary), time_breakdown(summary)))


def workload_line(workload: "Workload", concurrency: int | None = None) -> str:
    """A workload in one line: its size, rate (or how many are under way) and mean lengths."""
    load = f"at {number(workload.rate)} req/s" if concurrency is None else f"with {concurrency} under way"
    return (
        f"{workload.name}: {len(workload):,} requests {load}, "
        f"{number(float(workload.prompt_tokens.mean()))} prompt and "
        f"{number(float(workload.output_tokens.mean()))} output tokens on average"
    )


def deployment_line(deployment: "Deployment") -> str:
    """A deployment in one line: its notation, its model and its devices."""
    model = deployment.model if isinstance(deployment.model, str) else deployment.model.name
    devices = " + ".join(f"{count} {device}" for device, count in deployment.by_device().items())
    return f"{deployment}: {model} on {devices}"


def outcome(summary: Summary) -> dict[str, str]:
    """How the run went, a line a subject; a subject without anything to tell is left out."""
    kv = summary["kv_occupancy"]
    lines = {
        "requests": counted(summary),
        "throughput": f"{number(summary['throughput_req_s'])} req/s, "
        f"{number(summary['throughput_tokens_s'])} output tokens/s",
        "attainment": f"{percent(summary['attainment'])} of requests within {summary['slo']}",
        "step times": known_within([summary]),
        "devices": f"busy {percent(summary['utilisation'])} of the time, "
        f"{number(summary['energy_j'] / 1e3)} kJ, {number(summary['cost_usd'])} $",
        "KV memory": f"{percent(kv['mean'])} full on average, {percent(kv['peak'])} at most; "
        f"{summary['preemptions']:,} preemptions, {summary['reused_tokens']:,} prompt tokens reused",
        "transfers": "{count:,}, {0} GB".format(number(summary["transfers"]["bytes"] / 1e9), **summary["transfers"]),
        "faults": "{count:,}; {reprefilled:,} requests prefilled again, {resumed:,} resumed".format(
            **summary["faults"]
        ),
    }
    told = {
        "attainment": summary["slo"],
        "step times": summary["band"],
        "transfers": summary["transfers"]["count"],
        "faults": summary["faults"]["count"],
    }
    return {subject: line for subject, line in lines.items() if told.get(subject, True)}


def known_within(summaries: Sequence[Summary]) -> str:
    """How near the cost model knows the steps of some runs: the largest error of each regime, and what it does not say.

    Empty if it says nothing at all.
    """
    bands = [summary["band"]["steps"] for summary in summaries if summary["band"] is not None]
    met = {regime: [steps[regime] for steps in bands if regime in steps] for regime in REGIMES}
    known = {regime: max(errors) for regime, errors in met.items() if errors and None not in errors}
    unknown = [name for regime, name in REGIMES.items() if None in met[regime]]
    unknown += [summary["deployment"] for summary in summaries if summary["band"] is None]
    if not known:
        return ""
    errors = ", ".join(f"±{percent(error)} ({REGIMES[regime]})" for regime, error in known.items())
    text = f"known to within {errors}, one standard deviation"
    return f"{text}; unknown for {', '.join(unknown)}" if unknown else text


def counted(summary: Summary) -> str:
    """What became of the requests, and in how long."""
    text = f"{summary['completed']:,} of {summary['requests']:,} completed in {number(summary['duration_s'])} s"
    for fate in ("rejected", "unfinished"):
        if summary[fate]:
            text += f", {summary[fate]:,} {fate}"
    return text


def latencies(summary: Summary) -> str:
    """A table of the latencies in ms."""
    rows = [
        [name, *(milliseconds(summary[key][statistic]) for statistic in STATISTICS)] for name, key in LATENCIES.items()
    ]
    return table(["latency, ms", *STATISTICS], rows)


def time_breakdown(summary: Summary) -> str:
    """Mean time of a request in each phase of its life, in ms, with a bar for its share."""
    spent = summary["breakdown_s"]
    total = sum(spent.values()) or 1.0
    rows = [
        [name, milliseconds(spent[phase]), percent(spent[phase] / total), bar(spent[phase] / total)]
        for phase, name in PHASES.items()
    ]
    return table(["time of a request, ms", "mean", "share", ""], rows)
