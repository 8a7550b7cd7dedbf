"""The timeline of a run in the trace-event format that Perfetto and chrome://tracing open."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twofold.errors import SpecError
from twofold.scheduler.state import ROLES

if TYPE_CHECKING:
    from twofold.simulate.result import Result

MICRO = 1e6


def events_of(result: "Result") -> list[dict[str, Any]]:
    """Trace events: one process a replica with its lanes, stalls and outgoing transfers; microseconds."""
    sim = result._sim
    events = [event for r in range(len(sim.stations)) for event in _names(result, r)]
    events += [_line(sim, line) for line in sim.log[: sim.control[0].logs]]
    return events + _stalls(result)


def _names(result: "Result", r: int) -> list[dict[str, Any]]:
    replica = result._sim.scheduler.replicas[r]
    role, multiplexed = ROLES[replica.home_role], replica.lanes == 2
    lanes = ["decode lane", "prefill lane"] if multiplexed else [f"stage batch {m}" for m in range(replica.stages)]
    threads = [*(lanes if multiplexed or replica.stages > 1 else ["steps"])]
    named = [{"ph": "M", "name": "process_name", "pid": r, "args": {"name": f"replica {r} ({role})"}}]
    for lane, name in [*enumerate(threads), (100, "transfers out"), (101, "requests stalled")]:
        named.append({"ph": "M", "name": "thread_name", "pid": r, "tid": lane, "args": {"name": name}})
    return named


def _line(sim: Any, line: Any) -> dict[str, Any]:
    event = {"ph": "X", "pid": int(line.replica), "ts": line.start * MICRO, "dur": (line.end - line.start) * MICRO}
    if line.kind == 1:
        name = f"request {line.slot} to replica {line.lane}"
        return event | {"tid": 100, "name": name, "cat": "transfer", "args": {"request": int(line.slot)}}
    counts = {"decodes": int(line.decodes), "prompt_tokens": int(line.prompt_tokens), "steps": int(line.steps)}
    kinds = [word for word, number in (("decode", line.decodes), ("prefill", line.prompt_tokens)) if number]
    name = " + ".join(kinds) or "idle"
    return event | {"tid": int(line.lane), "name": name, "cat": "step", "args": counts}


def _stalls(result: "Result") -> list[dict[str, Any]]:
    """Steps without decodes, on a replica that has some, are stalls of those: drawn from the steps."""
    sim, found = result._sim, []
    last: dict[int, Any] = {}
    for line in sim.log[: sim.control[0].logs]:
        if line.kind == 1 or sim.scheduler.replicas[line.replica].lanes == 2:
            continue
        before = last.get(int(line.replica))
        if line.decodes == 0 and before is not None and before["decodes"] > 0 and line.start <= before["end"]:
            before["end"] = line.end
            found.append(_stall(line, before["decodes"]))
        elif line.decodes > 0:
            last[int(line.replica)] = {"decodes": int(line.decodes), "end": line.end}
    return found


def _stall(line: Any, decodes: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "pid": int(line.replica),
        "tid": 101,
        "ts": line.start * MICRO,
        "dur": (line.end - line.start) * MICRO,
        "name": f"stall of {decodes} decodes",
        "cat": "stall",
        "args": {"decodes": decodes, "prompt_tokens": int(line.prompt_tokens)},
    }


def write_timeline(result: "Result", path: Path) -> None:
    """Write the trace; SpecError when the run kept no timeline or the file cannot be written."""
    if not result._sim.control[0].logging:
        raise SpecError("timeline", str(path), "the run must keep its timeline: simulate(..., timeline=True)")
    try:
        with path.open("w") as file:
            json.dump({"traceEvents": events_of(result), "displayTimeUnit": "ms"}, file)
    except OSError as error:
        raise SpecError("timeline", str(path), f"cannot be written: {error.strerror or error}") from error
