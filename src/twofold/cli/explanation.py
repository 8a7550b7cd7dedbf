"""The screens of explanations: why a plan is what it is, regret, the choice of a budget, a prompt beside decodes."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from twofold.cli.report import PHASES, time_breakdown
from twofold.cli.show import ABSENT, milliseconds, number, percent, table

if TYPE_CHECKING:
    from twofold.plan.budget import BudgetChoice, BudgetStudy
    from twofold.plan.causes import Binding
    from twofold.plan.explain import Change, Explanation, Gain
    from twofold.plan.multiplexing import Coexistence, Way
    from twofold.plan.occupancy import Occupancy
    from twofold.plan.robust import Regret, RegretRow

MARK = "*"
FULL = 0.99
MEASURED = {
    "ttft": "the first token",
    "tpot": "a gap",
    "tbt": "the longest gap",
    "e2e": "a request",
    "slot": "later tokens",
}
BECAUSE = {
    "prompt length": "With all replicas to themselves they would take 80 % of that or more.",
    "saturation": "Prompts come faster than they can be prefilled.",
    "bursts": "Prompts come together; evenly spaced, a quarter more of them would do.",
    "KV memory": "KV memory is full, and requests wait for it.",
    "KV link": "KV is slow to arrive on the decode replicas.",
    "decode steps": "Decode steps alone take 80 % of that or more.",
    "prompts between decodes": "Decodes stand still while the prompts of others are computed.",
    "refused": "No replica can hold these requests.",
}
STANDS_STILL = "standing still"
ROLES = {"both": "replicas", "prefill": "prefill replicas", "decode": "decode replicas"}


def explanation(found: "Explanation") -> str:
    """All that is known of a deployment at its goodput: what binds, where time goes, what would change it."""
    held = (
        f"{found.deployment} sustains {number(found.goodput_req_s)} req/s: {percent(found.attainment)} of requests "
        f"within {found.slo}"
    )
    return "\n\n".join(
        (
            held,
            "\n".join(sentences(found.binding, found.groups_above)),
            groups(found.groups),
            time_breakdown({"breakdown_s": found.breakdown_s}),
            gains(found.one_more, found.resources),
            changes(found.changes),
        )
    )


def sentences(binding: "Binding", above: Sequence["Occupancy"]) -> Iterator[str]:
    """Why there is no more: the limit, how busy replicas are, the cause, and the time of a request that breaks it."""
    yield f"{limit_name(binding.limit)} binds: {_busy(above)}."
    too_long = f"need more than {milliseconds(binding.limit_s)} ms"
    yield f"At {number(binding.rate)} req/s, {percent(binding.broken)} of requests {too_long}."
    yield _because(binding, above)
    spent = [
        f"{milliseconds(seconds)} ms {_phase(binding, part)}"
        for part, seconds in sorted(binding.parts.items(), key=lambda item: -item[1])
        if milliseconds(seconds) != milliseconds(0.0)
    ]
    if spent:
        whole = milliseconds(sum(binding.parts.values()))
        yield f"For them {MEASURED[binding.metric]} takes {whole} ms on average: {', '.join(spent)}."


def limit_name(limit: str) -> str:
    """A limit as people write it: ``p99 tbt`` is P99 TBT, ``queue`` a queue that grows."""
    if limit.startswith("queue"):
        return limit.replace("queue", "A queue that grows", 1)
    words, full, rest = limit.partition(" (")
    return words.upper() + full + rest


def _busy(above: Sequence["Occupancy"]) -> str:
    roles = [group.role for group in above]
    names = [ROLES[group.role] if roles.count(group.role) == 1 else group.group for group in above]
    others = [f"{name} {percent(group.busy)}" for name, group in zip(names[1:], above[1:], strict=True)]
    return "; ".join([f"{names[0]} are busy {percent(above[0].busy)} of the time", *others])


def _because(binding: "Binding", above: Sequence["Occupancy"]) -> str:
    if binding.cause != "decode room":
        return BECAUSE[binding.cause]
    peak = max(group.kv_peak for group in above if group.role == "decode")
    reason = "memory is full" if peak >= FULL else f"batch is full, with KV memory at {percent(peak)} at most"
    return f"Prefilled requests wait for a decode replica, whose {reason}."


def _phase(binding: "Binding", part: str) -> str:
    return STANDS_STILL if part == "stall" and binding.metric != "ttft" else PHASES[part]


def groups(occupied: Sequence["Occupancy"]) -> str:
    """How busy and full each group is at the goodput."""
    rows = [
        (
            group.group,
            str(group.devices),
            percent(group.busy),
            percent(group.kv_mean),
            percent(group.kv_peak),
            percent(group.link),
        )
        for group in occupied
    ]
    return table(("at the goodput", "devices", "busy", "KV memory", "at most", "link"), rows)


def gains(one_more: Sequence["Gain"], resources: Sequence["Gain"]) -> str:
    """What one more replica of each group, and a quarter more of each resource, does to the goodput."""
    named = [(f"one more {gain.what}", gain) for gain in one_more]
    named += [(f"25 % more {gain.what}", gain) for gain in resources]
    rows = [(name, *_gained(gain)) for name, gain in named]
    return table(("with", "goodput, req/s", "gained", "per device added"), rows)


def _gained(gain: "Gain") -> tuple[str, str, str]:
    if math.isinf(gain.rate):
        return ("too few requests to tell", ABSENT, ABSENT)
    per_device = ABSENT if gain.per_device is None else f"{gain.per_device:+,.2f}"
    return (number(gain.rate), f"{gain.gained:+,.2f}", per_device)


def changes(found: Sequence["Change"]) -> str:
    """What other limits and twice the rate would mean."""
    rows = [
        (
            change.what.replace("slo", "SLO"),
            number(change.rate),
            percent(change.attainment),
            "holds" if change.limit is None else f"fails by {limit_name(change.limit)}",
            str(change.carried_by or ABSENT),
        )
        for change in found
    ]
    return table(("if", "req/s", "attainment", "", "devices that hold it"), rows, left=(0, 3))


def regret_table(found: "Regret") -> str:
    """Goodput of each deployment on each workload, its share of the column's best, and its regret."""
    head = ["goodput, req/s", "devices"]
    for name in found.workloads:
        head += [name, "of best"]
    least = found.least_regret
    rows = [_regret_row(row) for row in found.rows]
    lost = f"never more than {percent(least.worst)} below the best for a workload" if least.worst else "always the best"
    text = f"least regret: {least.deployment} is {lost}"
    return f"{table([*head, 'worst regret', 'mean'], rows)}\n\n{text}\n{MARK} best of the column; {found.slo}"


def _regret_row(row: "RegretRow") -> list[str]:
    cells = [str(row.deployment), str(row.deployment.devices_total)]
    for cell in row.cells:
        cells += [number(cell.found.rate) + (MARK if cell.share == 1.0 else " "), percent(cell.share)]
    return [*cells, percent(row.worst), percent(row.mean)]


def budget_table(found: "BudgetStudy") -> str:
    """The profile of each budget beside what the simulated load makes of it, and the two choices."""
    rows = [
        (
            number(profiled.budget, 1),
            milliseconds(profiled.step_s),
            percent(profiled.overhead),
            milliseconds(run.tbt_p99_s),
            milliseconds(run.ttft_p50_s),
            milliseconds(run.ttft_p99_s),
            "" if run.sustained else "not sustained",
        )
        for profiled, run in zip(found.profile, found.runs, strict=True)
    ]
    head = ("budget", "full step", "chunking", "P99 TBT", "P50 TTFT", "P99 TTFT", "")
    alone = f"32 decodes at context 4,096 take {milliseconds(found.decode_step_s)} ms undisturbed; times in ms"
    choices = {"strict, 5 times that": found.strict, "relaxed, 25 times": found.relaxed}
    told = [f"{name}: {budget_choice(choice)}" for name, choice in choices.items()]
    return "\n".join([table(head, rows, left=(6,)), "", alone, *told])


def budget_choice(found: "BudgetChoice") -> str:
    """The largest budgets under one limit in a line."""
    limit = f"P99 TBT <= {milliseconds(found.tbt_limit_s)} ms"
    profiled = "none" if found.profiled is None else f"{found.profiled.budget:,} tokens"
    if found.simulated is None:
        return f"{limit}: {profiled} by the profile, none in the simulated load"
    least = "at least " if found.open_ended else ""
    unsteady = "" if found.simulated.sustained else ", but the load is not sustained"
    return (
        f"{limit}: {profiled} by the profile, {least}{found.simulated.budget:,} in the simulated load "
        f"({milliseconds(found.simulated.tbt_p99_s)} ms{unsteady})"
    )


def coexistence_table(found: "Coexistence", itl_limit_s: float | None = None) -> str:
    """One prompt beside decodes, a line a way of sharing, and which way to prefer under a limit on every gap."""
    head = (
        f"{found.prompt_tokens:,} prompt tokens beside {found.decodes:,} decodes at context {found.context:,}: "
        f"{found.model} on {found.device}"
    )
    rows = [
        (
            way.deployment + (MARK if way.chosen else ""),
            milliseconds(way.itl_s),
            milliseconds(way.longest_itl_s),
            milliseconds(way.prefill_s),
            ABSENT if way.tokens is None else f"{way.tokens:.0f}",
        )
        for way in found.rows
    ]
    told = [f"{MARK} the split that PD-Mux takes for so many decodes"] if found.undivided is None else [found.undivided]
    if itl_limit_s is not None:
        told.append(preference(found, itl_limit_s))
    columns = ("way", "ITL, ms", "longest", "prefill, ms", "tokens meanwhile")
    return "\n\n".join((head, table(columns, rows), "\n".join(told)))


def preference(found: "Coexistence", itl_limit_s: float) -> str:
    """Which way prefills soonest without breaking a limit on every gap, beside the best of the other kind."""
    limit = f"With every gap within {milliseconds(itl_limit_s)} ms"
    best = found.soonest(itl_limit_s)
    if best is None:
        alone = found.rows[0].itl_s
        return f"{limit}, no way prefills this prompt here; the decodes alone take {milliseconds(alone)} ms a step."
    other = replace(found, rows=tuple(way for way in found.rows if _kind(way) != _kind(best))).soonest(itl_limit_s)
    beside = "no other kind of sharing keeps the limit" if other is None else _prefills(other)
    return f"{limit}, {_prefills(best)}; {beside}."


def _kind(way: "Way") -> str:
    return way.deployment.partition("=")[0]


def _prefills(way: "Way") -> str:
    return (
        f"{way.deployment} prefills in {milliseconds(way.prefill_s)} ms and lets each decode write "
        f"{way.tokens or 0.0:.0f} tokens meanwhile"
    )
