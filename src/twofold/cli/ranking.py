"""The screen of a plan: what it was made for, how sure it is, and the ranked deployments."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from twofold.cli.report import workload_line
from twofold.cli.show import ABSENT, bar, milliseconds, number, percent, table

if TYPE_CHECKING:
    from twofold.plan.ranking import Certificate, Plan

HEAD = ("rank", "deployment", "goodput, req/s", "90 %", "per device", "$/h", "kW", "limited by", "may swap with", "")
UNTOLD = "not told from"
FRONT, TAILS = "pareto", {"p99_ttft_s": "P99 TTFT, ms", "p99_tbt_s": "P99 TBT, ms"}
STOPPED = {"time": "stopped by --time", "interrupted": "interrupted"}


def plan_report(found: "Plan", top: int) -> str:
    """Everything that a plan shows of its ranking."""
    told = (
        headline(found),
        ranking(found.rows, top, found.objective.name),
        untold(found.rows, "goodput" if found.regret is None else "worst regret"),
        proof(found),
        traps(found.rows[:top]),
        beyond(found),
    )
    return "\n\n".join(filter(None, told))


PER = {"goodput-per-dollar": ("req/s per $/h", "usd_per_hour", 1.0), "goodput-per-watt": ("req/s per kW", "watts", 1e3)}


def beyond(found: "Plan") -> str:
    """How many requests are longer than the model's context, which the simulator does not mind; empty without any."""
    tokens = found.workload.prompt_tokens.astype(int) + found.workload.output_tokens
    count = int((tokens > found.model.max_context).sum())
    if not count:
        return ""
    return (
        f"{count:,} of {len(tokens):,} requests are longer than the context of {found.model.name}, "
        f"{found.model.max_context:,} tokens: simulated all the same, but an engine would refuse them."
    )


def headline(found: "Plan") -> str:
    """What was planned for: the requests of a probe, the model, the devices and the limits."""
    aim = found.objective.name
    if found.objective.target is not None:
        aim += f" at {number(found.objective.target)} req/s"
    return f"{workload_line(found.workload)}\n{found.model.name} on {found.resources}: {found.slo}; for {aim}"


def ranking(rows: Sequence[Mapping[str, Any]], top: int, objective: str = "goodput") -> str:
    """The ``top`` best plans, one a line, with a bar for the goodput; the best is first."""
    most = max(row["goodput_req_s"] for row in rows) or 1.0
    doubted = any(row["cost_error"] is not None for row in rows)
    lines = [
        (
            str(rank),
            row["deployment"],
            number(row["goodput_req_s"]),
            interval(row),
            number(row["goodput_per_device_req_s"]),
            *_per(row, objective),
            number(row["usd_per_hour"]),
            number(row["watts"] / 1e3),
            *([milliseconds(row[name]) for name in TAILS] if objective == FRONT else []),
            row["limit"],
            _ranks(row["swaps_with"], row["low_req_s"] is not None, top),
            *([_ranks(row["not_told_from"], row["cost_error"] is not None, top)] if doubted else []),
            bar(row["goodput_req_s"] / most, 12),
        )
        for rank, row in enumerate(rows[:top], 1)
    ]
    per = [PER[objective][0]] if objective in PER else []
    tails = list(TAILS.values()) if objective == FRONT else []
    head = (*HEAD[:5], *per, *HEAD[5:7], *tails, *HEAD[7:9], *([UNTOLD] if doubted else []), *HEAD[9:])
    words = ("deployment", "limited by", "may swap with", UNTOLD)
    return table(head, lines, left=[place for place, name in enumerate(head) if name in words])


def _ranks(ranks: Sequence[int], known: bool, top: int) -> str:
    """The ranks that are shown, and how many are not."""
    shown = [str(rank) for rank in ranks if rank <= top]
    more = [f"{len(ranks) - len(shown)} below"] if len(shown) < len(ranks) else []
    return ", ".join(shown + more) or ("none" if known else ABSENT)


def untold(rows: Sequence[Mapping[str, Any]], ranked: str = "goodput") -> str:
    """A line on how near the cost model knows what is ``ranked``; empty where it does not say."""
    errors = [row["cost_error"] for row in rows if row["cost_error"] is not None]
    if not errors:
        return ""
    least, largest = percent(min(errors)), percent(max(errors))
    within = f"±{largest}" if least == largest else f"±{least} to ±{largest}"
    return (
        f"The cost model knows the steps of these to within {within}, one standard deviation: "
        f"it cannot tell a {ranked} from those of the ranks under `{UNTOLD}`."
    )


def _per(row: Mapping[str, Any], objective: str) -> tuple[str, ...]:
    """What an objective ranks by, where the other columns do not have it."""
    if objective not in PER:
        return ()
    _, field, scale = PER[objective]
    return (number(row["goodput_req_s"] / row[field] * scale),)


def interval(row: Mapping[str, Any]) -> str:
    """The 90 % interval of a goodput."""
    if row["low_req_s"] is None:
        return ABSENT
    return f"{number(row['low_req_s'])} to {number(row['high_req_s'])}"


def proof(found: "Plan") -> str:
    """How many deployments there are, what became of them, and what that proves."""
    sure = found.certificate
    first = "the cheapest of the front" if found.objective.name == FRONT else "the best"
    leads = first if found.regret is None else "the least regretted of those below; in the first workload's plan,"
    many = f"{sure.candidates:,}" if sure.whole else f"{sure.candidates:,} or more"
    counted = (
        f"{found.best.label} is {leads} of {many}: {sure.pruned_by_bound:,} ruled out by their bound, "
        f"{sure.pruned_by_probe:,} by simulation, {sure.measured:,} measured"
    )
    if sure.unexamined:
        counted += f", {sure.unexamined:,} not examined"
    return f"{counted}; {_gap(sure, found.best.confirmed)}."


def _gap(sure: "Certificate", confirmed: bool) -> str:
    if sure.stopped is None:
        return "gap 0"
    if math.isinf(sure.gap):
        return f"{STOPPED[sure.stopped]} before all had a bound: how far it is from the best is not known"
    if not confirmed:
        above = f"more than {percent(sure.gap)} above it" if sure.gap else "above it"
        return f"{STOPPED[sure.stopped]} before a longer replay has confirmed its goodput: none is {above}"
    if sure.gap == 0.0:
        return f"{STOPPED[sure.stopped]}, but the best is proved: gap 0"
    return f"{STOPPED[sure.stopped]}: it is within {percent(sure.gap)} of the best"


def traps(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line on those whose goodput a short replay would have overstated; empty without any."""
    told = [
        f"{row['deployment']} (rank {rank}) at {number(row['trap_req_s'])} req/s"
        for rank, row in enumerate(rows, 1)
        if row["trap_req_s"] is not None
    ]
    if not told:
        return ""
    return (
        f"Trap: these requests alone pass {'; '.join(told)}, but the queue grows; goodputs are those of longer replays."
    )
