"""``twofold replay``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twofold.cli import options
from twofold.cli.policies import policies_of
from twofold.cli.show import facts, milliseconds, number, percent, print_json, table
from twofold.errors import SpecError

if TYPE_CHECKING:
    from twofold.engine.replay import Replayed
    from twofold.engine.spent import Durations

Log = Annotated[
    Path, typer.Argument(metavar="LOG", help="What `twofold serve --log-decisions` has written.", dir_okay=False)
]
Simulate = Annotated[
    bool,
    typer.Option(
        "--simulate",
        metavar="",
        help="Run the simulator's event loop on the times of the log, not the scheduler alone.",
    ),
]
DIFFERS = 1


def run(
    log: Log, simulate: Simulate = False, policy_file: options.PolicyFile = None, json: options.Json = False
) -> None:
    """Give the events of a decision log to the scheduler again: does it decide the same, step for step?"""
    with policies_of(policy_file):
        try:
            found = by_simulator(log) if simulate else by_scheduler(log)
        except UnicodeDecodeError:
            raise SpecError("LOG", log.name, "accepted: a text of one JSON object a line") from None
    _check_used(policy_file, found)
    print_json({"log": log.name, **to_dict(found)}) if json else print(report(log.name, found))
    if found.difference is not None:
        raise typer.Exit(DIFFERS)


def _check_used(policy_file: Path | None, found: "Replayed") -> None:
    """SpecError for a file of policies beside a log of a policy of Twofold, which it does not replace."""
    from twofold.spec.group import POLICIES

    if policy_file is not None and found.policy in POLICIES:
        raise SpecError(
            "--policy-file", str(policy_file), f"the log is of {found.policy}, a policy of Twofold: leave it out"
        )


def by_scheduler(log: Path) -> "Replayed":
    """Replay on the scheduler, without a clock, in one pass."""
    from twofold.engine.decisions import read_events
    from twofold.engine.replay import replay

    with log.open(encoding="utf-8") as lines:
        return replay(read_events(lines))


def by_simulator(log: Path) -> "Replayed":
    """Replay in the event loop of the simulator; a first pass over the file finds the requests."""
    from twofold.clocks.replay import replay_simulated
    from twofold.engine.decisions import read_events, workload_of

    with log.open(encoding="utf-8") as lines:
        workload = workload_of(read_events(lines))
    with log.open(encoding="utf-8") as lines:
        events = read_events(lines)
        return replay_simulated(next(events), workload, events)


def to_dict(found: "Replayed") -> dict[str, Any]:
    """A replay as JSON has it, times in seconds."""
    scheduler = found.spent.scheduler()
    return {
        "model": found.model,
        "policy": found.policy,
        "blocks": found.blocks,
        "requests": found.requests,
        "plans": found.plans,
        "splits": found.splits,
        "steps": found.steps,
        "same": found.difference is None,
        "difference": None if found.difference is None else vars(found.difference),
        "steps_by_kind": {kind: times._asdict() for kind, times in found.spent.steps().items()},
        "scheduler": None if scheduler is None else scheduler._asdict(),
        "scheduler_share": found.spent.scheduler_share(),
    }


def report(name: str, found: "Replayed") -> str:
    """What was compared, whether it was the same, and where the time of the log went."""
    lines = {
        "log": f"{name}: {found.model}, {found.policy}, {found.blocks:,} KV blocks, {found.requests:,} requests",
        "compared": f"{found.plans:,} plans, {found.splits:,} splits, {found.steps:,} steps",
    }
    difference = found.difference
    if difference is None:
        lines["decisions"] = "the same, step for step"
    else:
        lines["decisions"] = f"differ first at line {difference.event + 1}: {difference.what}"
        lines["in the log"], lines["decided now"] = difference.logged, difference.decided
    parts = [facts(lines)]
    if scheduler := found.spent.scheduler():
        rows = [_row(kind, times) for kind, times in found.spent.steps().items()]
        head = ["steps", "number", "total s", "p50 ms", "p99 ms"]
        parts.append(table(head, [*rows, _row("scheduler, a step", scheduler)]))
        parts.append(f"The scheduler took {percent(found.spent.scheduler_share())} of the time.")
    return "\n\n".join(parts)


def _row(name: str, times: "Durations") -> Sequence[str]:
    return name, f"{times.steps:,}", number(times.total_s), milliseconds(times.p50_s), milliseconds(times.p99_s)
