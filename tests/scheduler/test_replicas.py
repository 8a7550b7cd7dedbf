"""Arrays of replicas from their groups."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.cost.roofline import Roofline
from twofold.errors import SpecError
from twofold.scheduler.blocks import TIERS
from twofold.scheduler.replicas import block_pools, fill_replica, fill_splits
from twofold.scheduler.state import BY_TBT, NONE, REPLICA, SPLIT, UNLIMITED, records
from twofold.spec import catalog
from twofold.spec.notation import parse_groups

MODEL = catalog.model("llama-3-8b")


def filled(text, hash_tokens=0):
    (group,) = parse_groups(text)
    replica = records(REPLICA, 1)[0]
    fill_replica(replica, group, 100, hash_tokens, MODEL, Roofline())
    return replica


@given(sizes=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=4))
@settings(deadline=None, max_examples=20)
def test_pools_divide_all_blocks_and_each_is_one_free_list(sizes):
    groups = [
        SimpleNamespace(block_tokens=4, host_kv_bytes=8 * host, disk_kv_bytes=8 * disk) for _, host, disk in sizes
    ]
    pools, blocks, bins = block_pools(groups, [device for device, _, _ in sizes], 2)
    wanted = [size if tier == 0 or row[0] else 0 for row in sizes for tier, size in enumerate(row)]
    assert pools.count.tolist() == pools.free.tolist() == wanted
    assert len(pools) == len(sizes) * TIERS
    seen, width = [], 0
    for pool in pools:
        block, found = int(pool.head), []
        while block != NONE:
            assert blocks[block].previous == (found[-1] if found else NONE)
            found.append(block)
            block = int(blocks[block].next)
        assert found == list(range(pool.first, pool.first + pool.count))
        assert pool.tail == (found[-1] if found else NONE)
        assert pool.mask + 1 >= 2 * pool.count
        assert pool.bins == width
        seen, width = seen + found, width + int(pool.mask) + 1
    assert seen == list(range(sum(wanted)))
    assert np.array_equal(bins, np.full(width, NONE))


def test_limits_of_a_group():
    replica = filled("1B,chunked=300,batch=7,blocks=8,reserve,order=priority,prefill-every=3")
    assert (replica.token_budget, replica.max_batch, replica.block_tokens, replica.prefill_every) == (300, 7, 8, 3)
    assert (replica.free_blocks, replica.total_blocks, replica.queue, replica.reserve) == (100, 100, NONE, 1)
    assert filled("1B,mixed").token_budget == UNLIMITED


@pytest.mark.parametrize(
    ("text", "hash_tokens", "identified"), [("1B", 0, 0), ("1B", 16, 1), ("1B,prefix", 0, 0), ("1B,no-prefix", 16, 0)]
)
def test_content_is_known_where_there_are_names_and_nobody_forbids(text, hash_tokens, identified):
    assert filled(text, hash_tokens).identified == identified


def test_an_unknown_policy_is_refused():
    (group,) = parse_groups("1B")
    with pytest.raises(SpecError, match="policy: 'nobodys'"):
        fill_replica(records(REPLICA, 1)[0], group.model_copy(update={"policy": "nobodys"}), 1, 0, MODEL, Roofline())


def test_stream_groups_of_a_split():
    device = catalog.device("H100")
    (group,) = parse_groups("1B,multiplexed=80:52")
    replica, table, thresholds = records(REPLICA, 1)[0], records(SPLIT, 8), np.zeros(8, np.int64)
    fill_splits(replica, table, thresholds, group, device, None)
    assert replica.groups == 3
    assert [(int(row.prefill_units), int(row.decode_units)) for row in table[:3]] == [(132, 0), (80, 52), (0, 132)]
    assert table[1].prefill_flops == pytest.approx(80 / 132)
    assert table[1].decode_kv == pytest.approx(min(1.0, 2 * 52 / 132))


def test_a_split_by_slo_needs_a_limit():
    device = catalog.device("H100")
    (group,) = parse_groups("1B,multiplexed=slo")
    replica, table, thresholds = records(REPLICA, 1)[0], records(SPLIT, 8), np.zeros(8, np.int64)
    with pytest.raises(SpecError, match="an SLO with a tpot or tbt limit"):
        fill_splits(replica, table, thresholds, group, device, None)
    fill_splits(replica, table, thresholds, group, device, 0.02)
    assert (replica.chooser, replica.split_tbt_s) == (BY_TBT, 0.02)
