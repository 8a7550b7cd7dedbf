"""Which stream group a multiplexed replica uses now: the rules of ``split`` asked with the state of a scheduler."""

import numpy as np

from twofold.compiled import compiled
from twofold.cost.step import Load, Speed, step_seconds
from twofold.scheduler.fill import step_load
from twofold.scheduler.split import choose, choose_for_tbt
from twofold.scheduler.state import BY_TABLE, BY_TBT, Scheduler


@compiled
def _pick_for_tbt(s: Scheduler, r: int, load: Load) -> int:
    replica, cost = s.replicas[r], s.costs[r]
    units, seconds = np.zeros(replica.groups, np.int64), np.zeros(replica.groups)
    for g in range(1, replica.groups - 1):
        split = s.splits[r, g]
        speed = Speed(split.decode_flops, split.decode_weights, split.decode_kv)
        units[g] = split.decode_units
        seconds[g] = step_seconds(cost, load, speed) * cost.contention_decode
    return choose_for_tbt(units, seconds, replica.split_tbt_s)


@compiled
def pick_group(s: Scheduler, r: int, k: int, prompts: bool) -> int:
    """The group for the decodes of step ``k``, beside a batch of prompts or not."""
    replica, load = s.replicas[r], step_load(s, k)
    if replica.chooser == BY_TBT and prompts and load.decodes > 0:
        return _pick_for_tbt(s, r, load)
    rows = int(replica.groups) if replica.chooser == BY_TABLE else 0
    return choose(int(replica.groups), load.decodes, prompts, int(replica.batch_divisor), s.thresholds[r, :rows])
