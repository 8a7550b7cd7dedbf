"""The decision log: what happened to one replica and what its scheduler decided, one JSON object a line.

=========  ==========================================================================================================
event      fields
=========  ==========================================================================================================
start      version, blocks, hash_tokens
arrive     request (numbered from 0), at (s), prompt, output (at most), priority, ids (names of its full pieces)
plan       lane, kind (decode, prompt, mixed or idle), items [[request, prompt tokens or 0 for a decode], ...]
split      group, units [prefill, decode], prompts (whether a batch of prompts is there): a stream group is chosen
end        lane, at (s), seconds (it was busy), last [requests that got their last token], ids [[request, id], ...]
leave      request, at (s): it left before its end
=========  ==========================================================================================================

A plan of a multiplexed replica ends when an ``end`` of its lane says so; others may lie between.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from twofold.errors import SpecError
from twofold.spec.workload import Workload

VERSION = 1
Event = dict[str, Any]


class DecisionLog:
    """Writes events as lines of JSON; ``write`` takes one line, its end included."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    def add(self, event: str, **fields: Any) -> None:
        """One event, with its fields in the order given."""
        self._write(json.dumps({"event": event, **fields}, separators=(",", ":")) + "\n")


def kind_of(prompts: int, decodes: int) -> str:
    """What a step of so many prompt chunks and decodes is called."""
    if prompts and decodes:
        return "mixed"
    return "prompt" if prompts else "decode" if decodes else "idle"


def read_events(lines: Iterable[str]) -> list[Event]:
    """The events of a log; SpecError for what is not one of this version."""
    try:
        events: list[Event] = [json.loads(line) for line in lines]
    except json.JSONDecodeError as error:
        raise SpecError("decision log", error.doc[:40], "accepted: one JSON object a line") from None
    first = events[0] if events else None
    if first is None or first.get("event") != "start" or first.get("version") != VERSION:
        raise SpecError("decision log", first, f"accepted: a log of version {VERSION}, which begins with its start")
    return events


def workload_of(events: list[Event], name: str = "served") -> Workload:
    """The requests of a log as a workload: arrivals, prompts, most output tokens, priorities and names of pieces.

    SpecError when nothing arrived.
    """
    arrivals = [event for event in events if event["event"] == "arrive"]
    if not arrivals:
        raise SpecError("decision log", len(events), "accepted: a log in which at least one request arrives")
    ids = [list(event["ids"]) for event in arrivals]
    for event in events:
        if event["event"] == "end":
            for request, piece in event["ids"]:
                ids[request].append(piece)
    at, prompt, output, priority = (
        np.array([event[field] for event in arrivals]) for field in ("at", "prompt", "output", "priority")
    )
    return Workload(
        name,
        at,
        prompt,
        output,
        priority,
        hash_tokens=events[0]["hash_tokens"],
        hash_start=np.concatenate([[0], np.cumsum([len(row) for row in ids])]),
        hash_ids=np.array([piece for row in ids for piece in row], np.int64),
    )
