"""A decision log against a scheduler without a clock: told what happened, does it decide the same?"""

from dataclasses import dataclass, field
from typing import Any

from twofold.engine.decisions import Event
from twofold.scheduler.groups import pick_group
from twofold.scheduler.policies import custom_policy, no_custom
from twofold.scheduler.queue import enqueue
from twofold.scheduler.service import compiled_fill, last_token, leave, planner
from twofold.scheduler.state import Scheduler, refer
from twofold.scheduler.step import commit


@dataclass
class Replayed:
    """Plans and splits that were compared, and the first that differed, in words (None: all were the same)."""

    plans: int = 0
    splits: int = 0
    difference: str | None = None


@dataclass
class Replay:
    """Replays a log on replica 0 of ``s``: fresh arrays in which request i of the log is slot i."""

    s: Scheduler
    policy: str = ""
    found: Replayed = field(default_factory=Replayed)

    def __post_init__(self) -> None:
        self._state = refer(self.s)
        self._custom = compiled_fill(custom_policy(self.policy) or no_custom)

    def run(self, events: list[Event]) -> Replayed:
        """Feed all events, up to the first decision that differs."""
        for number, event in enumerate(events):
            handle: Any = getattr(self, f"_{event['event']}")
            handle(event)
            if self.found.difference is not None:
                self.found.difference = f"event {number}: {self.found.difference}"
                break
        return self.found

    def _start(self, event: Event) -> None:
        self._compare("blocks", event["blocks"], int(self.s.replicas[0].total_blocks))

    def _arrive(self, event: Event) -> None:
        enqueue(self._state, 0, event["request"])

    def _plan(self, event: Event) -> None:
        lane = event["lane"]
        count = planner()(self._state, 0, lane, self._custom)
        slots, tokens = self.s.item_slots[lane, :count].tolist(), self.s.item_tokens[lane, :count].tolist()
        self.found.plans += 1
        self._compare(f"items of lane {lane}", event["items"], [list(item) for item in zip(slots, tokens, strict=True)])

    def _split(self, event: Event) -> None:
        self.found.splits += 1
        self._compare("group", event["group"], pick_group(self._state, 0, 0, event["prompts"]))

    def _end(self, event: Event) -> None:
        for request in event["last"]:
            last_token(self._state, request)
        commit(self._state, 0, event["lane"], 1)

    def _leave(self, event: Event) -> None:
        if not leave(self._state, 0, event["request"]):
            self.found.difference = f"request {event['request']} is in a step and cannot leave"

    def _compare(self, what: str, logged: Any, decided: Any) -> None:
        if logged != decided:
            self.found.difference = f"{what}: {logged} in the log, {decided} now"
