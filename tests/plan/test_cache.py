import sqlite3
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import twofold
from twofold.cost.roofline import Roofline
from twofold.plan import cache as caching
from twofold.plan.cache import Cache, Recorded, cacheable, key_of, open_cache
from twofold.plan.probe import probe
from twofold.scheduler.policies import _registered, policy
from twofold.simulate.run import simulate
from twofold.spec import catalog
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload

SLO = Slo.parse("ttft<=1s, p99 tbt<=50ms")
SHORTER = catalog.model({"like": "llama-3-8b", "name": "Llama-3-8B", "layers": 31})
ROWS = Workload("rows", np.arange(30.0), np.full(30, 500), np.full(30, 20))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "plans" / "runs.sqlite"


def deployed(text: str = "1B", **options):
    return twofold.deployment(text, **{"model": "llama-3-8b", "device": "H100"} | options)


def test_what_is_put_is_there_for_the_next_process(path):
    first = Cache(path)
    first.put("a", b"1")
    first.put("a", b"2")
    first.close()
    second = Cache(path)
    assert second.get("a") == b"2"
    assert second.get("b") is None
    second.close()


def test_two_processes_write_at_the_same_time(path):
    one, other = Cache(path), Cache(path)
    one.put("a", b"1")
    other.put("b", b"2")
    assert (one.get("b"), other.get("a")) == (b"2", b"1")
    one.close()
    other.close()


def test_threads_share_it(path):
    cache = Cache(path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: cache.put(str(i), bytes([i])), range(100)))
        assert list(pool.map(lambda i: cache.get(str(i)), range(100))) == [bytes([i]) for i in range(100)]
    cache.close()


def test_what_was_used_longest_ago_leaves_first(path, monkeypatch):
    monkeypatch.setattr(caching, "MOST_BYTES", 25)
    moments = iter(range(100))
    monkeypatch.setattr(caching.time, "time", lambda: float(next(moments)))
    cache = Cache(path)
    for key in "abc":
        cache.put(key, b"0123456789")
    cache.get("a")
    cache.close()
    again = Cache(path)
    assert [again.get(key) is not None for key in "abc"] == [True, False, True]
    again.close()


def test_a_broken_file_is_begun_anew(path):
    path.parent.mkdir()
    path.write_bytes(b"this is no database" * 1000)
    cache = open_cache(path)
    assert cache is not None
    cache.put("a", b"1")
    cache.close()
    again = open_cache(path)
    assert again is not None
    assert again.get("a") == b"1"
    again.close()


def test_a_folder_that_cannot_be_made_means_no_cache(tmp_path):
    (tmp_path / "file").write_text("")
    assert open_cache(tmp_path / "file" / "runs.sqlite") is None


def test_a_file_that_another_process_holds_is_not_used(path, monkeypatch):
    monkeypatch.setattr(caching, "PATIENCE_S", 0.01)
    cache = Cache(path)
    cache.put("a", b"1")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    assert probe(ROWS, deployed(), SLO, cache=cache).failed is None
    assert cache.get("a") is None
    cache.close()
    other.close()


def test_a_file_that_breaks_on_the_way_changes_no_verdict(path):
    cache = Cache(path)
    first = probe(ROWS, deployed(), SLO, cache=cache)
    cache._file.execute("DROP TABLE runs")
    assert probe(ROWS, deployed(), SLO, cache=cache) == first
    cache.close()


@pytest.mark.parametrize("content", [b"", b"junk", b"PK\x03\x04 half", b"\x93NUMPY"])
def test_content_that_is_no_run_is_taken_for_none(path, content):
    assert Recorded.from_bytes(content) is None
    cache = Cache(path)
    cache.put(key_of(ROWS, deployed(), SLO, None), content)
    assert probe(ROWS, deployed(), SLO, cache=cache) == probe(ROWS, deployed(), SLO)
    cache.close()


def test_a_recorded_run_reads_back_as_it_was():
    result = simulate(ROWS, deployed(), SLO)
    recorded = Recorded.from_bytes(Recorded.of(result, SLO).to_bytes())
    assert recorded is not None
    for column in ("ttft_s", "tpot_s", "max_tbt_s", "e2e_s", "slot_wait_s", "completed"):
        np.testing.assert_array_equal(getattr(recorded, column), getattr(result, column))
    assert recorded.tbt_quantile(0.99) == result.tbt_quantile(0.99)
    assert recorded.kv_peak == result.kv_peak
    assert recorded.judges(Slo.parse("p50 ttft<=1s, p99 tbt<=1s"))
    assert not recorded.judges(Slo.parse("p90 tbt<=1s"))


def test_whatever_changes_a_run_changes_its_key():
    plain = key_of(ROWS, deployed(), SLO, None)
    assert plain == key_of(ROWS, deployed(), Slo.parse("ttft<=9s"), None)
    others = [
        key_of(ROWS.at_rate(7.0), deployed(), SLO, None),
        key_of(ROWS, deployed("1B,batch=9"), SLO, None),
        key_of(ROWS, deployed(seed=1), SLO, None),
        key_of(ROWS, deployed(device="H200"), SLO, None),
        key_of(ROWS, deployed(model=SHORTER), SLO, None),
        key_of(ROWS, deployed(), SLO, Roofline(step_overhead_s=0.0)),
        key_of(ROWS, deployed("1B,multiplexed=slo"), Slo.parse("tpot<=20ms"), None),
        key_of(ROWS, deployed("1B,multiplexed=slo"), Slo.parse("tpot<=30ms"), None),
    ]
    assert len({plain, *others}) == 1 + len(others)


def test_a_policy_of_ones_own_is_not_kept_since_its_code_may_change(path):
    policy("own")(lambda s, r, k: 0)
    try:
        assert not cacheable(deployed("1B,policy=own"))
        assert cacheable(deployed("2P2D"))
    finally:
        del _registered["own"]
