"""One replica's scheduler in the service of an engine: its arrays, its calls, and the log of what it decides."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from twofold.cost.contract import CostModel
from twofold.cost.roofline import Roofline, cost_record
from twofold.engine.decisions import DecisionLog, kind_of
from twofold.engine.slots import Slots
from twofold.errors import SpecError
from twofold.scheduler.content import name_pieces
from twofold.scheduler.groups import pick_group
from twofold.scheduler.policies import custom_policy, no_custom
from twofold.scheduler.replicas import block_pools, fill_replica, fill_splits
from twofold.scheduler.service import arrive, compiled_fill, last_token, leave, planner
from twofold.scheduler.state import MULTIPLEXED, NONE, REPLICA, REQUEST, SPLIT, STEP, Scheduler, records, refer
from twofold.scheduler.step import commit
from twofold.spec.device import Device
from twofold.spec.group import Group
from twofold.spec.model import Model

UNSERVED: dict[str, Any] = {
    "role": "both",
    "tp": 1,
    "pp": 1,
    "expert_parallel": False,
    "host_kv_bytes": 0,
    "disk_kv_bytes": 0,
    "power_cap_w": None,
    "async_scheduling": False,
}
"""Fields of a group that the engine takes only at this value."""


def check_served(group: Group) -> None:
    """Raise SpecError for what the simulator can do and the engine cannot."""
    for name, only in UNSERVED.items():
        if getattr(group, name) != only:
            raise SpecError(name, getattr(group, name), f"the engine serves only {only!r} so far")


def service_arrays(
    group: Group, model: Model, device: Device, blocks: int, slots: Slots, cost: CostModel | None, tbt_s: float | None
) -> Scheduler:
    """The arrays of one replica with ``blocks`` KV blocks, all of its slots empty; SpecError as ``check_served``."""
    check_served(group)
    count, context = slots.tokens.shape
    pieces, batch = context // group.block_tokens + 2, group.max_batch
    replicas, lanes = records(REPLICA, 1), 2 if group.policy == "multiplexed" else 1
    hash_tokens = 0 if group.prefix_cache is False else group.block_tokens
    fill_replica(replicas[0], group, blocks, hash_tokens, model, cost or Roofline())
    replicas[0].identified = 1
    contention = (group.contention_decode, group.contention_prefill)
    costs = cost_record(model, device, roofline=cost, contention=contention)
    splits, thresholds = records(SPLIT, 1, group.sm_group_num), np.zeros((1, group.sm_group_num), np.int64)
    if replicas[0].policy == MULTIPLEXED:
        fill_splits(replicas[0], splits[0], thresholds[0], group, device, tbt_s, costs[0])
    pools, pool_blocks, bins = block_pools([group], [blocks], model.kv_bytes_per_token)
    requests = records(REQUEST, count)
    requests.table = requests.hashes = np.arange(count) * pieces
    requests.replica = NONE
    return Scheduler(
        requests=requests,
        replicas=replicas,
        costs=costs,
        steps=records(STEP, lanes),
        item_slots=np.zeros((lanes, batch + 1), np.int64),
        item_tokens=np.zeros((lanes, batch + 1), np.int64),
        started=np.zeros((1, batch + 1), np.int64),
        decoding=np.zeros((1, 2 * batch + 1), np.int64),
        splits=splits,
        thresholds=thresholds,
        pools=pools,
        blocks=pool_blocks,
        bins=bins,
        tables=np.zeros(count * pieces, np.int64),
        hashes=np.zeros(count * pieces, np.int64),
        lanes=lanes,
    )


class Planner:
    """Calls of the scheduler by slot, each written to ``log`` by the number of its request, in seconds of ``clock``."""

    def __init__(
        self,
        s: Scheduler,
        slots: Slots,
        policy: str,
        log: DecisionLog | None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.s, self.state, self._slots, self._log, self._clock = s, refer(s), slots, log, clock
        self._plan, self._custom = planner(), compiled_fill(custom_policy(policy) or no_custom)
        self._arrival = -1.0

    @property
    def most_decodes(self) -> int:
        """Most decodes that a step can have."""
        return min(int(self.s.replicas[0].max_batch), len(self.s.requests))

    def arrive(self, slot: int, now: float, prompt: int, output: int, priority: int) -> None:
        """The request in ``slot``, its tokens already written, joins the queue.

        No two arrive at one time, so that their order never depends on their slots.
        """
        self._arrival = now if now > self._arrival else float(np.nextafter(self._arrival, np.inf))
        request = self.s.requests[slot]
        request.hash_count = 0
        name_pieces(self.state, 0, slot, self._slots.tokens, prompt, self._slots.chains)
        arrive(self.state, 0, slot, self._arrival, prompt, output, priority)
        if self._log is not None:
            ids = self.s.hashes[request.hashes : request.hashes + request.hash_count].tolist()
            number, at = self._slots.entry(slot).number, self._arrival
            self._log.add("arrive", request=number, at=at, prompt=prompt, output=output, priority=priority, ids=ids)

    def plan(self, lane: int) -> int:
        """Fill the next step of ``lane``; returns its items."""
        if self._log is None:
            return self._plan(self.state, 0, lane, self._custom)
        began = self._clock()
        count = self._plan(self.state, 0, lane, self._custom)
        took = self._clock() - began
        step, slots = self.s.steps[lane], self.s.item_slots[lane, :count].tolist()
        tokens = self.s.item_tokens[lane, :count].tolist()
        items = [[self._slots.entry(slot).number, n] for slot, n in zip(slots, tokens, strict=True)]
        kind = kind_of(int(step.prompts), int(step.decodes))
        self._log.add("plan", lane=lane, at=began, kind=kind, items=items, scheduler_s=took)
        return count

    def pick_group(self, prompts: bool) -> int:
        """The stream group for the decodes just planned, beside ``prompts`` or not."""
        began = self._clock()
        group = pick_group(self.state, 0, 0, prompts)
        if self._log is not None:
            split, took = self.s.splits[0, group], self._clock() - began
            units = [int(split.prefill_units), int(split.decode_units)]
            self._log.add("split", group=group, units=units, prompts=prompts, scheduler_s=took)
        return group

    def end(
        self, lane: int, now: float, seconds: float, slots: np.ndarray, named: np.ndarray | None, last: list[int]
    ) -> None:
        """Apply the step of ``lane``: ``slots`` got a token each and gained ``named`` pieces, ``last`` have ended."""
        began = self._clock()
        for slot in last:
            last_token(self.state, slot)
        commit(self.state, 0, lane, 1)
        if self._log is not None:
            took, numbers = self._clock() - began, [self._slots.entry(slot).number for slot in last]
            ids = self._gained(slots, named)
            self._log.add("end", lane=lane, at=now, seconds=seconds, last=numbers, ids=ids, scheduler_s=took)

    def _gained(self, slots: np.ndarray, named: np.ndarray | None) -> list[list[int]]:
        if named is None:
            return []
        gained = []
        for slot, count in zip(slots.tolist(), named.tolist(), strict=True):
            request = self.s.requests[slot]
            end = request.hashes + request.hash_count
            number = self._slots.entry(slot).number
            gained += [[number, piece] for piece in self.s.hashes[end - count : end].tolist()]
        return gained

    def leave(self, slot: int, now: float) -> bool:
        """Take a request away; False while it is in a step."""
        if not leave(self.state, 0, slot):
            return False
        if self._log is not None:
            self._log.add("leave", request=self._slots.entry(slot).number, at=now)
        return True
