"""From a group to the records of its replicas: limits, stream groups and pools of identified blocks."""

from collections.abc import Sequence

import numpy as np

from twofold.cost.contract import CostModel
from twofold.cost.split import split_speeds
from twofold.errors import SpecError
from twofold.scheduler import split as splits
from twofold.scheduler.blocks import TIERS
from twofold.scheduler.policies import custom_policy
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
    ROLES,
    UNLIMITED,
    records,
)
from twofold.spec.device import Device
from twofold.spec.group import Group
from twofold.spec.model import Model


def fill_replica(
    replica: np.record, group: Group, blocks: int, hash_tokens: int, model: Model, constants: CostModel
) -> None:
    """Write the limits of a replica that has ``blocks`` KV blocks; ``hash_tokens`` 0 where no content is known.

    Raises SpecError for a policy that nobody knows.
    """
    role = ROLES.index(group.role)
    replica.policy = POLICIES.index(group.policy) if group.policy in POLICIES else CUSTOM
    if replica.policy == CUSTOM and custom_policy(group.policy) is None:
        raise SpecError(
            "policy", group.policy, f"accepted: {', '.join(POLICIES[:-1])}, or one registered by --policy-file"
        )
    replica.role = replica.home_role = role
    replica.order = ORDERS.index(group.order)
    replica.reserve = group.admission == "reserve"
    replica.identified = group.prefix_cache is not False and hash_tokens > 0
    replica.hash_tokens = hash_tokens
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
    replica.ahead = group.async_scheduling
    replica.queue, replica.alive = NONE, 1
    replica.load_token_s = model.kv_bytes_per_token / constants.host_bytes_per_s
    replica.load_disk_token_s = model.kv_bytes_per_token / constants.disk_bytes_per_s


def fill_splits(
    replica: np.record,
    table: np.recarray,
    thresholds: np.ndarray,
    group: Group,
    device: Device,
    tbt_limit_s: float | None,
    cost: np.record | None = None,
) -> None:
    """Write the stream groups of a multiplexed replica: ``table`` SPLIT[groups], ``thresholds`` int64[groups].

    Speeds are those that ``cost`` was measured at, else the device's curves. ``tbt_limit_s`` is the SLO's,
    where the group names none. Raises SpecError for a split that cannot be made.
    """
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
        speeds = split_speeds(cost, int(prefill), int(decode), device.units, group.saturation)
        row.prefill_flops, row.prefill_weights, row.prefill_kv = speeds.prefill
        row.decode_flops, row.decode_weights, row.decode_kv = speeds.decode
        row.sizes = len(speeds.by_size)
        for i, (tokens, speed) in enumerate(speeds.by_size):
            row.size_at[i], row.size_speed[i] = tokens, speed


def _stream_groups(group: Group, device: Device) -> splits.StreamGroups:
    fixed = group.fixed_split
    if fixed is None:
        return splits.stream_groups(device.units, device.compute_capability, group.sm_group_num, group.manual_divisions)
    return splits.fixed_groups(device.units, device.compute_capability, *fixed)


def block_pools(
    groups: Sequence[Group], blocks: Sequence[int], kv_bytes_per_token: int
) -> tuple[np.recarray, np.recarray, np.ndarray]:
    """Pools (device, host, disk of each replica), their blocks, all free, and their hash bins.

    ``groups`` and ``blocks`` (of the device) have one entry a replica; with 0 blocks none of its pools has any.
    """
    pools = records(POOL, len(groups) * TIERS)
    pools.head, pools.tail = NONE, NONE
    first = bins = 0
    for p, pool in enumerate(pools):
        r, tier = divmod(p, TIERS)
        below = (0, groups[r].host_kv_bytes, groups[r].disk_kv_bytes)[tier] if blocks[r] else 0
        size = blocks[r] if tier == 0 else below // (kv_bytes_per_token * groups[r].block_tokens)
        width = 1 << max(1, int(2 * size - 1).bit_length())
        pool.first, pool.count, pool.free = first, size, size
        pool.bins, pool.mask = bins, width - 1
        if size:
            pool.head, pool.tail = first, first + size - 1
        first, bins = first + size, bins + width
    return pools, _linked(pools, first), np.full(bins, NONE, np.int64)


def _linked(pools: np.recarray, count: int) -> np.recarray:
    blocks = records(BLOCK, count + 1)
    blocks.previous = np.arange(-1, count)
    blocks.next = np.arange(1, count + 2)
    for pool in pools:
        if pool.count:
            blocks[pool.head].previous = NONE
            blocks[pool.tail].next = NONE
    return blocks
