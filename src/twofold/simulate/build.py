"""From what a user writes to the arrays of the event loop."""

from typing import Any, NamedTuple

import numpy as np

from twofold.cost.contract import CostModel
from twofold.cost.roofline import Roofline, cost_record
from twofold.cost.split import lane_speeds
from twofold.cost.step import COST
from twofold.errors import SpecError
from twofold.scheduler import split as splits
from twofold.scheduler.blocks import TIERS
from twofold.scheduler.policies import custom_policy
from twofold.scheduler.routing import METHODS, ROUTE, ROUTER
from twofold.scheduler.state import (
    BLOCK,
    BY_BATCH,
    BY_TABLE,
    BY_TBT,
    CUSTOM,
    MULTIPLEXED,
    NONE,
    ORDERS,
    POLICIES,
    POOL,
    REPLICA,
    REQUEST,
    ROLES,
    SPLIT,
    STEP,
    UNLIMITED,
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
        _fill_replica(replicas[r], member, workload, blocks[r], model, roofline or Roofline())
        costs[r] = cost_of(member, model, roofline)[0]
        if member.group.policy == "multiplexed":
            _fill_splits(replicas[r], split_table[r], thresholds[r], member, tbt_limit_s)
    identified = bool(replicas.identified.any())
    pools, pool_blocks, bins = _build_pools(members, blocks, model, identified)
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


def _fill_replica(
    replica: np.record, member: Member, workload: Workload, blocks: int, model: Model, constants: CostModel
) -> None:
    group = member.group
    role = ROLES.index(group.role)
    replica.policy = POLICIES.index(group.policy) if group.policy in POLICIES else CUSTOM
    if replica.policy == CUSTOM and custom_policy(group.policy) is None:
        raise SpecError(
            "policy", group.policy, f"accepted: {', '.join(POLICIES[:-1])}, or one registered by --policy-file"
        )
    replica.role = replica.home_role = role
    replica.order = ORDERS.index(group.order)
    replica.reserve = group.admission == "reserve"
    wanted = workload.hash_tokens > 0 if group.prefix_cache is None else group.prefix_cache
    replica.identified = wanted and workload.hash_tokens > 0
    replica.hash_tokens = workload.hash_tokens
    replica.lanes = 2 if replica.policy == MULTIPLEXED else 1
    replica.stages = group.pp
    replica.token_budget = group.budget_tokens or UNLIMITED
    replica.budget_s = group.budget_s or 0.0
    replica.max_batch = group.max_batch
    replica.prompt_cap = group.prefill_batch_tokens or group.max_prefill_tokens
    replica.block_tokens = group.block_tokens
    replica.total_blocks = replica.free_blocks = blocks
    replica.prefill_every, replica.decode_every = group.prefill_every or 0, group.decode_every or 0
    replica.ageing_s = group.ageing_s
    replica.queue, replica.alive = NONE, 1
    replica.load_token_s = model.kv_bytes_per_token / constants.host_bytes_per_s
    replica.load_disk_token_s = model.kv_bytes_per_token / constants.disk_bytes_per_s


def _fill_splits(
    replica: np.record, table: np.recarray, thresholds: np.ndarray, member: Member, tbt_limit_s: float | None
) -> None:
    group, device = member.group, member.device
    if group.pp > 1:
        raise SpecError("pp", group.pp, "a multiplexed replica accepts pp1 (as PD-Mux)")
    chosen = _stream_groups(group, device)
    replica.groups = len(chosen.divisions)
    replica.batch_divisor, replica.layer_budget = group.decode_bs_divisor, group.split_forward_token_budget
    replica.chooser = BY_TABLE if len(chosen.thresholds) else BY_BATCH
    if group.split == "slo":
        limit = group.split_tbt_s or tbt_limit_s
        if limit is None:
            raise SpecError("split", "slo", "needs split_tbt_s, or an SLO with a tpot or tbt limit")
        replica.chooser, replica.split_tbt_s = BY_TBT, limit
    thresholds[: len(chosen.thresholds)] = chosen.thresholds
    for g, (prefill, decode) in enumerate(chosen.divisions):
        row = table[g]
        row.prefill_units, row.decode_units = prefill, decode
        speeds = lane_speeds(prefill / device.units, decode / device.units, group.saturation)
        row.prefill_flops, row.prefill_weights, row.prefill_kv = speeds.prefill
        row.decode_flops, row.decode_weights, row.decode_kv = speeds.decode


def _stream_groups(group: Group, device: Device) -> splits.StreamGroups:
    if group.split in ("pdmux", "slo"):
        return splits.stream_groups(device.units, device.compute_capability, group.sm_group_num, group.manual_divisions)
    prefill, decode = (int(part) for part in group.split.split(":"))
    return splits.fixed_groups(device.units, device.compute_capability, prefill, decode)


def _build_pools(
    members: list[Member], blocks: list[int], model: Model, identified: bool
) -> tuple[np.recarray, np.recarray, np.ndarray]:
    pools = records(POOL, len(members) * TIERS)
    pools.head, pools.tail = NONE, NONE
    if not identified:
        return pools, records(BLOCK, 1), np.full(1, NONE, np.int64)
    first = bins = 0
    for p, pool in enumerate(pools):
        r, tier = divmod(p, TIERS)
        group = members[r].group
        below = (0, group.host_kv_bytes, group.disk_kv_bytes)[tier]
        size = blocks[r] if tier == 0 else below // (model.kv_bytes_per_token * group.block_tokens)
        width = 1 << max(1, int(2 * size - 1).bit_length())
        pool.first, pool.count, pool.free = first, size, size
        pool.bins, pool.mask = bins, width - 1
        if size:
            pool.head, pool.tail = first, first + size - 1
        first, bins = first + size, bins + width
    all_blocks = records(BLOCK, first + 1)
    all_blocks.previous = np.arange(-1, first)
    all_blocks.next = np.arange(1, first + 2)
    for pool in pools:
        if pool.count:
            all_blocks[pool.head].previous = NONE
            all_blocks[pool.tail].next = NONE
    return pools, all_blocks, np.full(bins, NONE, np.int64)


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
