"""A decision log against the simulator: its event loop runs on the times of the log; does it decide the same?

The log gives arrivals, durations and who left early. All else is the simulator's own: queue, batches, chunks, splits,
the layers of a round, preemptions, what ends. Every event that the loop has pending waits at infinity until the log
comes to it. While a step ends its replica counts as lost, so that the next one is planned when the engine planned it.
"""

from collections.abc import Iterable
from typing import Any

import numba
import numpy as np
from numba import types

from twofold.compiled import compiled_as
from twofold.engine.decisions import LOG, Event
from twofold.engine.origin import Origin, Recorded
from twofold.engine.replay import Difference, Replayed, in_words, kind_of_items
from twofold.errors import SpecError
from twofold.scheduler.policies import FILL, custom_policy, no_custom
from twofold.scheduler.replicas import block_pools
from twofold.scheduler.service import compiled_fill, last_token, leave
from twofold.scheduler.state import DONE
from twofold.scheduler.state import refer as refer_scheduler
from twofold.simulate import loop
from twofold.simulate.events import push
from twofold.simulate.run import build
from twofold.simulate.state import PAUSED, SIMULATION, STEP_END, WAKE, Simulation, refer
from twofold.spec.deployment import Deployment
from twofold.spec.workload import Workload

DECODES, PROMPTS = 0, 1
MEMORY_MARGIN = 1.01
NEVER = np.inf


def replay_simulated(start: Event, workload: Workload, events: Iterable[Event]) -> Replayed:
    """Run the simulator on a log, up to the first decision that differs.

    ``start`` is its first event, ``workload`` its requests and ``events`` those after the first. SpecError for a log in
    which something happens that cannot.
    """
    made = Replay(Origin.read(start), workload)
    pending: tuple[int, Event] | None = None
    for number, event in enumerate(events, 1):
        if pending is not None:
            made.feed(*pending, event)
        pending = number, event
        if made.found.difference is not None:
            return made.found
    if pending is not None:
        made.feed(*pending, None)
    return made.found


def simulation_of(origin: Origin, workload: Workload) -> Simulation:
    """One replica as ``origin`` says, before the first arrival, step by step."""
    group, model = origin.group, origin.model
    if group.split == "slo" and group.split_tbt_s is None:
        group = group.replaced(split_tbt_s=origin.tbt_s)
    kv = origin.blocks * group.block_tokens * model.kv_bytes_per_token
    memory = int(MEMORY_MARGIN * (model.weight_bytes + kv) / group.memory_fraction)
    group = group.replaced(device=origin.device.replaced(memory=memory))
    where = Deployment(model=model, groups=(group,))
    sim = build(workload, where, model, None, Recorded(origin.cost), 0)
    replica = sim.scheduler.replicas[0]
    replica.total_blocks = replica.free_blocks = origin.blocks
    known = origin.blocks if replica.identified else 0
    pools, blocks, bins = block_pools([group], [known], model.kv_bytes_per_token)
    scheduler = sim.scheduler._replace(pools=pools, blocks=blocks, bins=bins)
    sim.control[0].fast = 0
    return sim._replace(scheduler=scheduler)


class Replay:
    """The simulator on the clock of a log: request i of the log is slot i."""

    def __init__(self, origin: Origin, workload: Workload) -> None:
        self.sim = simulation_of(origin, workload)
        self.found = Replayed(origin.group.policy, origin.model.name, origin.blocks)
        self._s, self._state = self.sim.scheduler, refer(self.sim)
        self._scheduler = refer_scheduler(self._s)
        self._custom: Any = custom_policy(origin.group.policy) or no_custom
        self._loop: Any = loop.run_events
        if not numba.config.DISABLE_JIT:
            self._custom = compiled_fill(self._custom)
            self._loop = compiled_as(types.int64(SIMULATION, FILL, types.int64))(loop.run_events)
        self.sim.arrivals[:] = NEVER
        self._event, self._ends_too = 0, False
        self._to_compare: set[int] = set()

    def feed(self, number: int, event: Event, following: Event | None) -> None:
        """One event, the ``number``-th of the log, and the one after it."""
        self._event = number
        if event["event"] == "end":
            self._end(event, following)
        else:
            getattr(self, f"_{event['event']}")(event)

    def _arrive(self, event: Event) -> None:
        if event["request"] != self.sim.control[0].next_arrival or event["request"] == len(self.sim.arrivals):
            raise self._impossible("request", event["request"], "requests numbered as they arrive")
        self.found.requests += 1
        self.sim.arrivals[event["request"]] = event["at"]
        self._run()

    def _plan(self, event: Event) -> None:
        """The first plan of a round makes the simulator plan all of it; those after it are compared only."""
        lane = event["lane"]
        if not 0 <= lane < self._s.lanes or (lane not in self._to_compare and self.sim.lanes[DECODES].busy):
            raise self._impossible("lane", lane, "a lane without a step")
        if lane not in self._to_compare:
            self._wake(event["at"])
            forms = self._s.lanes == 2 and lane == PROMPTS
            self._to_compare = {DECODES, PROMPTS} if forms else {DECODES}
        self._to_compare.discard(lane)
        self.found.plans += 1
        self.found.spent.plan(event)
        decided = self._items(lane)
        if event["items"] != decided:
            self._differs(f"a step of lane {lane}", *in_words(event["items"], decided))
        elif event["kind"] != (kind := kind_of_items(decided)):
            self._differs(f"the kind of a step of lane {lane}", event["kind"], kind)

    def _split(self, event: Event) -> None:
        group = int(self.sim.stations[0].group)
        split = self._s.splits[0, group]
        units = [int(split.prefill_units), int(split.decode_units)]
        self.found.splits += 1
        self.found.spent.split(event)
        if [event["group"], event["units"]] != [group, units]:
            self._differs("a split", f"group {event['group']}, {event['units']}", f"group {group}, {units}")

    def _end(self, event: Event, following: Event | None) -> None:
        """A step has ended; with the decodes of a round the prompts beside them may, which is one event here."""
        lane = event["lane"]
        if not 0 <= lane < self._s.lanes:
            raise self._impossible("lane", lane, "a lane of the replica")
        self.found.steps += 1
        self.found.spent.end(event)
        if lane == PROMPTS and self._ends_too:
            self._ends_too = False
            return
        with_prompts = following is not None and following["event"] == "end" and following["lane"] == PROMPTS
        ended = [event, following] if lane == DECODES and with_prompts and following is not None else [event]
        self._ends_too = len(ended) == 2
        here = [number for each in ended for number, _ in self._items(each["lane"])]
        logged = sorted(number for each in ended for number in each["last"])
        for number in logged:
            self._check(number)
            last_token(self._scheduler, number)
        if self._ends(event["at"], lane, prompts=lane == PROMPTS or self._ends_too):
            decided = sorted(number for number in here if self._s.requests[number].state == DONE)
            if decided != logged:
                self._differs(f"what ends with a step of lane {lane}", f"requests {logged}", f"requests {decided}")

    def _ends(self, at: float, lane: int, prompts: bool) -> bool:
        """The step of ``lane`` ends, and that of the prompts if so; False when the simulator has it otherwise."""
        own, replica = self.sim.lanes[lane], self._s.replicas[0]
        if self._s.lanes == 2:
            beside = self.sim.lanes[PROMPTS]
            if prompts and (not beside.busy or beside.layers_left > 0):
                self._differs("the layers of the prompts", "all have been run", f"{beside.layers_left} are left")
                return False
            beside.free = at if prompts else np.nextafter(at, NEVER)
        place = self._pending(STEP_END, lane)
        if place is None:
            self._differs(f"a step of lane {lane}", "ends", "there is none")
            return False
        own.end = at
        replica.alive = 0
        self._release(place, at)
        replica.alive = 1
        return True

    def _leave(self, event: Event) -> None:
        number = event["request"]
        self._check(number)
        if not leave(self._scheduler, 0, number):
            self._differs("leaving", f"request {number} leaves", "it is in a step and cannot")

    def _wake(self, at: float) -> None:
        if self._pending(WAKE, 0) is None:
            push(self._state, NEVER, WAKE, 0, 0)
            self.sim.lanes[DECODES].woken = 1
        place = self._pending(WAKE, 0)
        assert place is not None
        self._release(place, at)

    def _pending(self, kind: int, who: int) -> int | None:
        heap = self.sim.heap[: int(self.sim.control[0].events)]
        found = np.flatnonzero((heap["kind"] == kind) & (heap["who"] == who))
        return int(found[0]) if len(found) else None

    def _release(self, place: int, at: float) -> None:
        """Let a pending event happen now."""
        heap = self.sim.heap
        heap[[0, place]] = heap[[place, 0]]
        heap[0].time = at
        self._run()

    def _run(self) -> None:
        """Let the loop handle one event: what is pending waits on, and what it would report is not kept."""
        control = self.sim.control[0]
        status = self._loop(self._state, self._custom, 1)
        assert status == PAUSED, "an event that happens now is handled"
        self.sim.heap.time[: int(control.events)] = NEVER
        control.runs = control.ended = 0

    def _items(self, lane: int) -> list[list[int]]:
        count = int(self._s.steps[lane].items)
        slots, tokens = self._s.item_slots[lane, :count].tolist(), self._s.item_tokens[lane, :count].tolist()
        return [list(item) for item in zip(slots, tokens, strict=True)]

    def _check(self, number: Any) -> None:
        if not isinstance(number, int) or not 0 <= number < self.sim.control[0].next_arrival:
            raise self._impossible("request", number, "a request that has arrived")

    def _differs(self, what: str, logged: str, decided: str) -> None:
        self.found.difference = Difference(self._event, what, logged, decided)

    def _impossible(self, name: str, value: object, accepted: str) -> SpecError:
        return SpecError(f"{LOG}, line {self._event + 1}, {name}", value, f"accepted: {accepted}")
