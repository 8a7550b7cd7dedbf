"""The decision log: what happened to one replica and what its scheduler decided, one JSON object a line.

=========  ==========================================================================================================
event      fields
=========  ==========================================================================================================
start      version, hash_tokens, and what the scheduler was made of (see ``Origin``)
arrive     request (numbered from 0), at (s), prompt, output (at most), priority, ids (names of its full pieces)
plan       lane, at (s), kind (decode, prompt, mixed or idle), items [[request, prompt tokens or 0 for a decode], ...]
split      group, units [prefill, decode], prompts (whether a batch of prompts is there): a stream group is chosen
end        lane, at (s), seconds (it was busy), last [requests that got their last token], ids [[request, id], ...]
leave      request, at (s): it left before its end
=========  ==========================================================================================================

``plan``, ``split`` and ``end`` also have ``scheduler_s``, how long the scheduler took over it. A plan of a multiplexed
replica ends when an ``end`` of its lane says so; others may lie between.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from twofold.errors import SpecError
from twofold.spec.workload import Workload

VERSION = 2
Event = dict[str, Any]
LOG = "decision log"
FIELDS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "start": {"version": int, "hash_tokens": int, "blocks": int},
    "arrive": {"request": int, "at": (float, int), "prompt": int, "output": int, "priority": int, "ids": list},
    "plan": {"lane": int, "at": (float, int), "kind": str, "items": list, "scheduler_s": (float, int)},
    "split": {"group": int, "units": list, "prompts": bool, "scheduler_s": (float, int)},
    "end": {
        "lane": int,
        "at": (float, int),
        "seconds": (float, int),
        "last": list,
        "ids": list,
        "scheduler_s": (float, int),
    },
    "leave": {"request": int, "at": (float, int)},
}


class DecisionLog:
    """Writes events as lines of JSON; ``write`` takes one line, its end included."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    def start(self, origin: Event, hash_tokens: int) -> None:
        """The first event: what the scheduler is made of."""
        self.add("start", version=VERSION, hash_tokens=hash_tokens, **origin)

    def add(self, event: str, **fields: Any) -> None:
        """One event, with its fields in the order given."""
        self._write(json.dumps({"event": event, **fields}, separators=(",", ":")) + "\n")


def kind_of(prompts: int, decodes: int) -> str:
    """What a step of so many prompt chunks and decodes is called."""
    if prompts and decodes:
        return "mixed"
    return "prompt" if prompts else "decode" if decodes else "idle"


def read_events(lines: Iterable[str]) -> Iterator[Event]:
    """The events of a log, one at a time; SpecError for the first line that is not one of this version."""
    number = 0
    for number, line in enumerate(lines, 1):
        event = _event(line, number)
        if number == 1:
            _check_start(event)
        elif event["event"] == "start":
            raise SpecError(f"{LOG}, line {number}", "start", "accepted: one start, which is the first line")
        yield event
    if number == 0:
        raise SpecError(LOG, "", f"accepted: a log of version {VERSION}, which begins with its start")


def _event(line: str, number: int) -> Event:
    where = f"{LOG}, line {number}"
    try:
        event: Any = json.loads(line)
    except (json.JSONDecodeError, RecursionError):
        cut = "" if line.endswith("\n") else "; this one has no end"
        raise SpecError(where, line[:40], f"accepted: one JSON object a line{cut}") from None
    kind = event.get("event") if isinstance(event, dict) else None
    if not isinstance(kind, str) or kind not in FIELDS:
        raise SpecError(where, line[:40], f"accepted: an event, which is one of {', '.join(FIELDS)}")
    found: Event = event
    if kind == "start" and found.get("version") != VERSION:
        return found
    for name, accepted in FIELDS[kind].items():
        value = found.get(name)
        if not isinstance(value, accepted) or (isinstance(value, bool) and accepted is not bool) or not _bounded(value):
            raise SpecError(f"{where}, {kind}.{name}", value, "accepted: what an engine writes there")
    return found


def _bounded(value: object) -> bool:
    """Whether a number is finite and, when whole, one of 64 bits; true of all else."""
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or abs(value) < 1 << 63


def _check_start(event: Event) -> None:
    if event["event"] != "start" or event.get("version") != VERSION:
        found = f"version {event.get('version')}" if event["event"] == "start" else event["event"]
        raise SpecError(LOG, found, f"accepted: a log of version {VERSION}, which begins with its start")


def workload_of(events: Iterable[Event], name: str = "served") -> Workload:
    """The requests of a log as a workload: arrivals, prompts, most output tokens, priorities and names of pieces.

    SpecError when nothing arrived.
    """
    arrivals: list[tuple[float, int, int, int]] = []
    ids: list[list[int]] = []
    hash_tokens = 0
    for event in events:
        if event["event"] == "start":
            hash_tokens = event["hash_tokens"]
        elif event["event"] == "arrive":
            arrivals.append((event["at"], event["prompt"], event["output"], event["priority"]))
            ids.append(list(event["ids"]))
        elif event["event"] == "end":
            for pair in event["ids"]:
                _place(ids, pair).append(pair[1])
    if not arrivals:
        raise SpecError(LOG, 0, "accepted: a log in which at least one request arrives")
    at, prompt, output, priority = (np.array(column) for column in zip(*arrivals, strict=True))
    return Workload(
        name,
        at,
        prompt,
        output,
        priority,
        hash_tokens=hash_tokens,
        hash_start=np.concatenate([[0], np.cumsum([len(row) for row in ids])]),
        hash_ids=np.array([piece for row in ids for piece in row], np.int64),
    )


def _place(ids: list[list[int]], pair: Any) -> list[int]:
    whole = isinstance(pair, list) and len(pair) == 2 and all(isinstance(value, int) for value in pair)
    if not whole or not 0 <= pair[0] < len(ids):
        raise SpecError(LOG, pair, "accepted: pairs of a request that has arrived and the name of a piece")
    return ids[pair[0]]
