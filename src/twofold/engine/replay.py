"""A decision log against a scheduler without a clock: told what happened, does it decide the same?"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from twofold.engine.decisions import LOG, Event, kind_of
from twofold.engine.origin import Origin
from twofold.engine.spent import Spent
from twofold.errors import SpecError
from twofold.scheduler.groups import pick_group
from twofold.scheduler.policies import custom_policy, no_custom
from twofold.scheduler.service import arrive, compiled_fill, last_token, leave, planner
from twofold.scheduler.state import DONE, refer
from twofold.scheduler.step import commit

Items = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Difference:
    """The first decision that differs: event ``event`` of the log (from 0), both sides in words."""

    event: int
    what: str
    logged: str
    decided: str


@dataclass
class Replayed:
    """How much was compared, the first that differed (None: all were the same), and where the time of the log went."""

    policy: str
    model: str
    blocks: int
    requests: int = 0
    plans: int = 0
    splits: int = 0
    steps: int = 0
    difference: Difference | None = None
    spent: Spent = field(default_factory=Spent)


def replay(events: Iterable[Event]) -> Replayed:
    """Feed a log to a scheduler made as its start says, up to the first decision that differs.

    SpecError for a log in which something happens that cannot: a step that ends before it was planned, say.
    """
    stream = iter(events)
    made = Replay(next(stream))
    for number, event in enumerate(stream, 1):
        made.feed(number, event)
        if made.found.difference is not None:
            break
    return made.found


class Replay:
    """Replays on arrays with as many slots as the engine had; a request may lie in another slot than it did there."""

    def __init__(self, start: Event) -> None:
        origin = Origin.read(start)
        self.s = origin.scheduler()
        self.found = Replayed(origin.group.policy, origin.model.name, origin.blocks)
        self._state, self._most = refer(self.s), min(origin.context, origin.blocks * origin.group.block_tokens)
        self._fill, self._custom = planner(), compiled_fill(custom_policy(origin.group.policy) or no_custom)
        self._free = list(range(origin.requests - 1, -1, -1))
        self._slots: dict[int, int] = {}
        self._numbers = [0] * origin.requests
        self._planned: set[int] = set()
        self._event = 0
        replica = self.s.replicas[0]
        if int(replica.hash_tokens) != start["hash_tokens"]:
            raise SpecError(f"{LOG}, start.hash_tokens", start["hash_tokens"], f"accepted: {replica.hash_tokens}")

    def feed(self, number: int, event: Event) -> None:
        """One event, the ``number``-th of the log."""
        self._event = number
        getattr(self, f"_{event['event']}")(event)

    def _arrive(self, event: Event) -> None:
        number, prompt, output = event["request"], event["prompt"], event["output"]
        if number in self._slots or not self._free:
            raise self._impossible("request", number, "a request that is not there yet, and a free slot")
        if prompt < 1 or output < 1 or prompt + output > self._most:
            raise self._impossible("prompt", prompt, f"with its output 2 to {self._most} tokens")
        slot = self._free.pop()
        self._slots[number], self._numbers[slot] = slot, number
        self.s.requests[slot].hash_count = 0
        for piece in event["ids"]:
            self._name(slot, piece)
        arrive(self._state, 0, slot, event["at"], prompt, output, event["priority"])
        self.found.requests += 1

    def _plan(self, event: Event) -> None:
        lane = self._lane(event, planned=False)
        count = self._fill(self._state, 0, lane, self._custom)
        slots, tokens = self.s.item_slots[lane, :count].tolist(), self.s.item_tokens[lane, :count].tolist()
        decided = [[self._numbers[slot], n] for slot, n in zip(slots, tokens, strict=True)]
        if count:
            self._planned.add(lane)
        self.found.plans += 1
        self.found.spent.plan(event)
        if event["items"] != decided:
            self._differs(f"a step of lane {lane}", *in_words(event["items"], decided))
        elif event["kind"] != (kind := kind_of_items(decided)):
            self._differs(f"the kind of a step of lane {lane}", event["kind"], kind)

    def _split(self, event: Event) -> None:
        group = pick_group(self._state, 0, 0, event["prompts"])
        split = self.s.splits[0, group]
        units = [int(split.prefill_units), int(split.decode_units)]
        self.found.splits += 1
        self.found.spent.split(event)
        if [event["group"], event["units"]] != [group, units]:
            logged = event["units"]
            self._differs("a split", f"group {event['group']}, {logged}", f"group {group}, {units}")

    def _end(self, event: Event) -> None:
        lane = self._lane(event, planned=True)
        slots = self.s.item_slots[lane, : int(self.s.steps[lane].items)].tolist()
        for number, piece in self._pairs(event["ids"]):
            self._name(self._slot(number), piece)
        for number in event["last"]:
            last_token(self._state, self._slot(number))
        commit(self._state, 0, lane, 1)
        self._planned.discard(lane)
        ended = [self._numbers[slot] for slot in slots if self.s.requests[slot].state == DONE]
        self.found.steps += 1
        self.found.spent.end(event)
        if sorted(ended) != sorted(event["last"]):
            self._differs(f"what ends with a step of lane {lane}", f"requests {event['last']}", f"requests {ended}")
        for number in ended:
            self._release(number)

    def _leave(self, event: Event) -> None:
        slot = self._slot(event["request"])
        if leave(self._state, 0, slot):
            self._release(event["request"])
        else:
            self._differs("leaving", f"request {event['request']} leaves", "it is in a step and cannot")

    def _name(self, slot: int, piece: object) -> None:
        """One more piece of the content of ``slot`` has a name."""
        request = self.s.requests[slot]
        room = len(self.s.hashes) // len(self.s.requests) - int(request.hash_count)
        if not isinstance(piece, int) or not 0 < piece < 1 << 63 or room < 1:
            raise self._impossible("ids", piece, "names of pieces above 0, at most one for each piece")
        self.s.hashes[request.hashes + request.hash_count] = piece
        request.hash_count += 1

    def _pairs(self, rows: list[Any]) -> list[tuple[int, int]]:
        if not all(isinstance(row, list) and len(row) == 2 for row in rows):
            raise self._impossible("ids", rows, "pairs of a request and the name of a piece")
        return [(row[0], row[1]) for row in rows]

    def _lane(self, event: Event, planned: bool) -> int:
        lane: int = event["lane"]
        if not 0 <= lane < self.s.lanes or (lane in self._planned) != planned:
            raise self._impossible("lane", lane, "a lane with a step" if planned else "a lane without a step")
        return lane

    def _slot(self, number: Any) -> int:
        if not isinstance(number, int) or number not in self._slots:
            raise self._impossible("request", number, "a request that is there")
        return self._slots[number]

    def _release(self, number: int) -> None:
        self._free.append(self._slots.pop(number))

    def _differs(self, what: str, logged: str, decided: str) -> None:
        self.found.difference = Difference(self._event, what, logged, decided)

    def _impossible(self, name: str, value: object, accepted: str) -> SpecError:
        return SpecError(f"{LOG}, line {self._event + 1}, {name}", value, f"accepted: {accepted}")


def kind_of_items(items: Items) -> str:
    """The kind of a step of these pairs of a request and its prompt tokens."""
    prompts = sum(tokens > 0 for _, tokens in items)
    return kind_of(prompts, len(items) - prompts)


def in_words(logged: Items, decided: Items) -> tuple[str, str]:
    """The first item in which two steps differ, as each has it."""
    place = next((i for i, pair in enumerate(zip(logged, decided, strict=False)) if pair[0] != pair[1]), None)
    if place is None:
        place = min(len(logged), len(decided))
    return _item(logged, place), _item(decided, place)


def _item(items: Items, place: int) -> str:
    if place >= len(items):
        return f"{len(items)} items" if items else "nothing to do"
    try:
        number, tokens = items[place]
    except (TypeError, ValueError):
        return f"item {place}: {items[place]!r:.40}"
    return f"item {place}: " + (
        f"request {number} computes {tokens} prompt tokens" if tokens else f"request {number} decodes"
    )
