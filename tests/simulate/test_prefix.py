"""Prefix reuse against an independent model of a least-recently-used cache, and on a production trace."""

import json
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from harness import DEVICE, assert_complete, draw, run
from hypothesis import given, settings
from hypothesis import strategies as st

import twofold
from twofold.spec import catalog

TRACE = Path(__file__).parents[2] / ".." / "shared" / "data" / "traces" / "mooncake_conversation_trace.jsonl"
BLOCK = 16


class Cache:
    """Blocks of one replica that serves one request after the other, named by the prefix up to their end."""

    def __init__(self, blocks: int) -> None:
        self.free: OrderedDict[object, None] = OrderedDict((("empty", i), None) for i in range(blocks))
        self.unnamed = 0

    def serve(self, names: list[object], prompt: int, final: int) -> int:
        """Tokens reused by a prompt whose full blocks have these names."""
        hits = 0
        while hits < min(len(names), (prompt - 1) // BLOCK) and names[hits] in self.free:
            hits += 1
        for name in names[:hits]:
            del self.free[name]
        total = -(-final // BLOCK)
        for _ in range(total - hits):
            self.free.popitem(last=False)
        for index in reversed(range(total)):
            self.unnamed += 1
            known = index < len(names) and names[index] not in self.free
            self.free[names[index] if known else ("unnamed", self.unnamed)] = None
        return hits * BLOCK


@given(seed=st.integers(0, 999), pool=st.integers(1, 30))
@settings(deadline=None, max_examples=12)
def test_reuse_is_that_of_a_least_recently_used_cache(seed, pool):
    workload = draw(120, 0.05, seed, shared_prefix={"pool": pool, "tokens": 512}, output="fixed:1")
    result = run("1B,memory=0.206", workload)
    assert_complete(result)
    cache = Cache(int(result._sim.scheduler.replicas[0].total_blocks))
    starts = workload.hash_start
    rows = zip(starts[:-1], starts[1:], workload.prompt_tokens, strict=True)
    expected = []
    for status, (start, end, prompt) in zip(result.requests["status"], rows, strict=True):
        names = workload.hash_ids[start:end].tolist()[: prompt // BLOCK]
        expected.append(0 if status == "rejected" else cache.serve(names, int(prompt), int(prompt)))
    assert result.requests["reused_tokens"].to_list() == expected
    assert sum(expected) > 0


def test_reused_tokens_are_not_prefilled_again():
    workload = draw(80, 2, 1, shared_prefix={"pool": 2, "tokens": 1024})
    on, off = run("1B", workload), run("1B,no-prefix", workload)
    summary = on.summary()
    assert summary["reused_tokens"] + summary["prefilled_tokens"] == workload.prompt_tokens.sum()
    assert off.summary()["reused_tokens"] == 0
    assert on.ttft_s.mean() < off.ttft_s.mean()


def test_a_host_tier_reuses_more_and_takes_time():
    workload = draw(150, 4, 2, shared_prefix={"pool": 12, "tokens": 1024})
    none = run("1B,memory=0.21", workload)
    host = run("1B,memory=0.21,host=20GB", workload)
    assert host.summary()["reused_tokens"] > 1.2 * none.summary()["reused_tokens"]
    assert none.summary()["breakdown_s"]["transfer"] == 0.0
    assert host.summary()["breakdown_s"]["transfer"] > 0.0
    assert_complete(host)


def test_a_disk_tier_holds_what_falls_out_of_the_host():
    workload = draw(150, 4, 2, shared_prefix={"pool": 12, "tokens": 1024})
    host = run("1B,memory=0.21,host=200MB", workload)
    disk = run("1B,memory=0.21,host=200MB,disk=100GB", workload)
    assert disk.summary()["reused_tokens"] > host.summary()["reused_tokens"]
    assert_complete(disk)


def test_a_decode_replica_is_not_sent_what_it_has_and_host_blocks_are_not_free():
    workload = draw(100, 4, 3, shared_prefix={"pool": 2, "tokens": 1024})
    shared, plain = run("1P1D", workload), run("1P1D,no-prefix", workload)
    assert shared.summary()["transfers"]["bytes"] < 0.8 * plain.summary()["transfers"]["bytes"]
    many = draw(150, 4, 2, shared_prefix={"pool": 12, "tokens": 1024})
    without = run("1P + 1D,memory=0.21", many).summary()["transfers"]["bytes"]
    assert run("1P + 1D,memory=0.21,host=20GB", many).summary()["transfers"]["bytes"] == without


def repeated_blocks(path: Path) -> tuple[int, int, float]:
    """Full 512-token blocks that an unbounded cache reuses, all full ones, and the share of repeated ids."""
    seen: set[int] = set()
    reused = full = ids = repeated = 0
    for line in path.read_text().splitlines():
        row = json.loads(line)
        known = [h in seen for h in row["hash_ids"]]
        whole = (row["input_length"] - 1) // 512
        reused += next((i for i, hit in enumerate(known[:whole]) if not hit), min(whole, len(known)))
        full += row["input_length"] // 512
        ids, repeated = ids + len(known), repeated + sum(known)
        seen.update(row["hash_ids"])
    return reused, full, repeated / ids


@pytest.mark.skipif(not TRACE.exists(), reason="the shared trace is not beside the project")
def test_with_unbounded_memory_the_mooncake_trace_repeats_as_its_readme_says():
    workload = twofold.read_workload(TRACE)
    workload = replace(workload, output_tokens=np.ones(len(workload), np.int32)).sped_up(1e-3)
    device = catalog.device(DEVICE).replaced(memory=40e12)
    deployment = twofold.deployment("1B,blocks=512", model="llama-3-8b", device=device)
    summary = twofold.simulate(workload, deployment).summary()
    reused, full, repeated = repeated_blocks(TRACE)
    assert summary["completed"] == len(workload)
    assert summary["reused_tokens"] == 512 * reused
    assert repeated == pytest.approx(0.366, abs=0.001)
    assert reused / full == pytest.approx(0.382, abs=0.001)
