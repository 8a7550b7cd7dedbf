"""From what a user writes to the arrays of the event loop."""

from typing import Any, NamedTuple

import numpy as np

from twofold.cost.contract import CostModel
from twofold.cost.roofline import Roofline, cost_record
from twofold.cost.step import COST
from twofold.scheduler.replicas import block_pools, fill_replica, fill_splits
from twofold.scheduler.routing import METHODS, ROUTE, ROUTER
from twofold.scheduler.state import (
    NONE,
    REPLICA,
    REQUEST,
    SPLIT,
    STEP,
    Scheduler,
    records,
)
from twofold.simulate.capacity import kv_tokens
from twofold.spec import catalog
from twofold.spec.deployment import Deployment
from twofold.spec.device import Device
from twofold.spec.group import Group
from twofold.spec.model import Model
from twofold.spec.workload import Workload


class Member(NamedTuple):
    """One replica: its group and its device."""

    group: Group
    device: Device
    number: int


def members_of(deployment: Deployment) -> list[Member]:
    """The replicas of a deployment in the order of its groups."""
    found = []
    for number, group in enumerate(deployment.groups):
        device = catalog.device(group.device or deployment.device or "")
        found += [Member(group, device, number)] * group.count
    return found


def sizes_of(deployment: Deployment, model: Model) -> list[int]:
    """KV blocks of each replica."""
    by_group = {}
    for member in members_of(deployment):
        if member.number not in by_group:
            tokens = kv_tokens(model, member.device, member.group)
            by_group[member.number] = tokens // member.group.block_tokens
    return [by_group[member.number] for member in members_of(deployment)]


def build_scheduler(
    workload: Workload,
    deployment: Deployment,
    model: Model,
    roofline: CostModel | None,
    tbt_limit_s: float | None,
) -> Scheduler:
    """The scheduler's arrays for all replicas of ``deployment`` and all requests of ``workload``."""
    members = members_of(deployment)
    count = len(members)
    sides = 2 if any(member.group.role == "decode" for member in members) else 1
    lanes = max(2 if member.group.policy == "multiplexed" else member.group.pp for member in members)
    batch = max(member.group.max_batch for member in members)
    groups = max(member.group.sm_group_num for member in members)
    replicas, costs = records(REPLICA, count), records(COST, count)
    split_table, thresholds = records(SPLIT, count, groups), np.zeros((count, groups), np.int64)
    blocks = sizes_of(deployment, model)
    for r, member in enumerate(members):
        fill_replica(replicas[r], member.group, blocks[r], workload.hash_tokens, model, roofline or Roofline())
        costs[r] = cost_of(member, model, roofline)[0]
        if member.group.policy == "multiplexed":
            fill_splits(replicas[r], split_table[r], thresholds[r], member.group, member.device, tbt_limit_s, costs[r])
    identified = bool(replicas.identified.any())
    known = blocks if identified else [0] * count
    pools, pool_blocks, bins = block_pools([member.group for member in members], known, model.kv_bytes_per_token)
    requests, tables = _build_requests(workload, sides, members, identified)
    return Scheduler(
        requests=requests,
        replicas=replicas,
        costs=costs,
        steps=records(STEP, count * lanes),
        item_slots=np.zeros((count * lanes, batch + 1), np.int64),
        item_tokens=np.zeros((count * lanes, batch + 1), np.int64),
        started=np.zeros((count, batch + 1), np.int64),
        decoding=np.zeros((count, 2 * batch + 1), np.int64),
        splits=split_table,
        thresholds=thresholds,
        pools=pools,
        blocks=pool_blocks,
        bins=bins,
        tables=tables,
        hashes=workload.hash_ids if len(workload.hash_ids) else np.zeros(1, np.int64),
        lanes=lanes,
    )


def cost_of(member: Member, model: Model, roofline: CostModel | None) -> np.recarray:
    """The cost record of one replica."""
    group = member.group
    return cost_record(
        model,
        member.device,
        tp=group.tp,
        pp=group.pp,
        expert_parallel=group.expert_parallel,
        power_cap_w=group.power_cap_w,
        roofline=roofline,
        contention=(group.contention_decode, group.contention_prefill),
    )


def _build_requests(
    workload: Workload, sides: int, members: list[Member], identified: bool
) -> tuple[np.recarray, np.ndarray]:
    n = len(workload)
    requests = records(REQUEST, n * sides)
    for side in range(sides):
        here: Any = requests[side * n : (side + 1) * n]
        here.arrival, here.prompt, here.output = workload.arrival_s, workload.prompt_tokens, workload.output_tokens
        here.rank, here.target = workload.priority, workload.prompt_tokens
        here.hashes, here.hash_count = workload.hash_start[:-1], np.diff(workload.hash_start)
        here.replica = NONE
    if not identified:
        return requests, np.zeros(1, np.int64)
    smallest = min(member.group.block_tokens for member in members)
    entries = (workload.prompt_tokens.astype(np.int64) + workload.output_tokens) // smallest + 2
    ends = np.cumsum(np.tile(entries, sides))
    requests.table = ends - np.tile(entries, sides)
    return requests, np.zeros(int(ends[-1]), np.int64)


def build_routes(deployment: Deployment, count: int) -> tuple[np.recarray, np.recarray]:
    """The router's accounts and options."""
    router = records(ROUTER, 1)
    options = router[0]
    options.method = METHODS.index(deployment.router)
    options.overlap_credit, options.prefill_load_scale = deployment.overlap_credit, deployment.prefill_load_scale
    options.host_weight, options.disk_weight = deployment.host_weight, deployment.disk_weight
    options.temperature = deployment.temperature
    options.request_weight = deployment.decode_active_request_weight
    return records(ROUTE, count), router
