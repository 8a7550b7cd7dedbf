import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import ModuleType

import pytest

import twofold
from twofold.cli.main import main
from twofold.errors import SpecError
from twofold.plan import ray_pool
from twofold.plan.pool import Threads
from twofold.plan.ray_pool import RayPool
from twofold.spec.synthetic import Synthetic

ray = pytest.importorskip("ray")

SLO = "ttft<=0.5s, tpot<=20ms @90%"
NOWHERE = "127.0.0.1:1"
CATALOG = """
devices: {ray-test-device: {like: H100, bandwidth: 4TB/s, intra_link: ray-test-link, inter_link: ray-test-link}}
links: {ray-test-link: {like: 100GbE, bandwidth: 7GB/s}}
"""


@pytest.fixture(scope="module")
def address():
    """A cluster of two nodes with one CPU each, on this machine."""
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(prefix="ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_TMPDIR", folder)
        Path(folder, "ray").mkdir()
        patch.delenv("RAY_ADDRESS", raising=False)
        node = {"num_cpus": 1, "object_store_memory": 80_000_000}
        cluster = Cluster(
            initialize_head=True,
            head_node_args={**node, "include_dashboard": False, "temp_dir": folder},
        )
        cluster.add_node(**node)
        yield cluster.address
        cluster.shutdown()
    shutil.rmtree(folder)


@pytest.fixture
def pool(address):
    opened = RayPool(address)
    yield opened
    opened.close()
    assert not ray.is_initialized()


def test_a_plan_is_that_of_threads(pool, tmp_path, monkeypatch):
    monkeypatch.setenv("TWOFOLD_CACHE_DIR", str(tmp_path))
    workload = Synthetic(
        rate=10, requests=400, prompt="lognormal:755:0.6", output="lognormal:20:0.5", seed=3
    ).workload()
    asked = {"model": "llama-3-8b", "budget": "1xH100", "slo": SLO, "keep": 1, "samples": 2}
    one, two = Threads(1), Threads(2)
    plans = [twofold.plan(workload, pool=where, **asked).to_dict() for where in (one, two)]
    plans.append(twofold.plan(workload, pool=pool, cached=True, **asked).to_dict())
    two.close()
    assert plans[0]["best"]["goodput_req_s"] > 1
    assert plans[0] == plans[1] == plans[2]


def test_the_command_and_the_users_own_catalog(address, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(CATALOG)
    Path("run.yaml").write_text("{workload: {rate: 5, requests: 400, output: '20'}, catalog: mine.yaml}")
    asked = ("--model", "llama-3-8b", "--gpus", "2xray-test-device", "--slo", SLO)
    plan = ["plan", "run.yaml", *asked, "--top", "1", "--resamples", "0", "--no-cache", "--json"]
    assert main([*plan, "--ray", address]) == 0
    shown = capfd.readouterr()
    assert shown.err == ""
    assert main(plan) == 0
    assert shown.out == capfd.readouterr().out
    assert json.loads(shown.out)["best"]["goodput_req_s"] > 1


def test_all_nodes_work_and_answers_are_in_order(pool, tmp_path):
    def meet(folder: Path, item: int) -> tuple[int, str]:
        (folder / str(item)).touch()
        end = time.monotonic() + 20
        while len(list(folder.iterdir())) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        return item, ray.get_runtime_context().get_node_id()

    answers = pool.map(meet, tmp_path, [7, 3])
    assert pool.workers == 2
    assert [item for item, _ in answers] == [7, 3]
    assert len({node for _, node in answers}) == 2


def test_what_a_task_raises_is_raised(pool):
    def refuse(error: Exception, item: int) -> int:
        if item:
            raise error
        return item

    with pytest.raises(SpecError) as refused:
        pool.map(refuse, SpecError("tp", 3, "accepted: 1, 2, 4"), [0, 1])
    assert type(refused.value) is SpecError
    assert (refused.value.field, refused.value.value, refused.value.accepted) == ("tp", 3, "accepted: 1, 2, 4")
    with pytest.raises(ZeroDivisionError, match="by nothing"):
        pool.map(refuse, ZeroDivisionError("by nothing"), [0, 1])


def test_workers_that_die_are_one_line(pool, monkeypatch):
    monkeypatch.setattr(pool, "_answer", pool._answer.options(max_retries=0))
    with pytest.raises(SpecError, match="its workers failed") as failed:
        pool.map(lambda code, _: os._exit(code), 3, [0])
    assert "\n" not in str(failed.value)


def test_an_interrupt_ends_the_tasks_in_flight(pool, tmp_path):
    def linger(folder: Path, item: int) -> None:
        (folder / str(item)).touch()
        end = time.monotonic() + 60
        while time.monotonic() < end:
            time.sleep(0.01)

    def interrupt_once_begun() -> None:
        while not any(tmp_path.iterdir()):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt_once_begun, daemon=True).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        pool.map(linger, tmp_path, range(6))
    assert pool.map(lambda base, item: base + item, 1, [1, 2, 3]) == [2, 3, 4]
    assert time.monotonic() - began < 30
    assert len(list(tmp_path.iterdir())) <= pool.workers


def test_nodes_with_another_twofold_or_none_are_told(pool, monkeypatch):
    def answer(*_: object) -> None:
        pass

    monkeypatch.setattr(ray_pool, "CODE", "another")
    with pytest.raises(SpecError, match="the same twofold on every node"):
        pool.map(lambda _, item: item, None, [1])
    answer.__module__, answer.__qualname__ = "only_here", "answer"
    monkeypatch.setitem(sys.modules, "only_here", ModuleType("only_here"))
    monkeypatch.setattr("only_here.answer", answer, raising=False)
    monkeypatch.setattr(pool, "_answer", ray.remote(answer))
    with pytest.raises(SpecError, match="the same twofold on every node") as refused:
        pool.map(lambda _, item: item, None, [1])
    assert "\n" not in str(refused.value)


def test_who_was_connected_before_stays_so(pool):
    second = RayPool("auto")
    assert second.map(lambda base, item: base * item, 2, [4]) == [8]
    second.close()
    assert ray.is_initialized()
    with pytest.raises(SpecError, match="connected to Ray already"):
        RayPool(pool.address)


@pytest.mark.parametrize("given", [NOWHERE, f"ray://{NOWHERE}", "[::1]:1", "localhost", "local", "1.2.3.4:99999", ""])
def test_where_no_cluster_is_one_line_says_so_at_once(given, capfd):
    began = time.monotonic()
    with pytest.raises(SpecError, match="auto, HOST:PORT or ray://HOST:PORT") as refused:
        RayPool(given)
    assert "\n" not in str(refused.value)
    assert time.monotonic() - began < 10
    assert capfd.readouterr() == ("", "")


def test_the_variable_of_ray_is_checked_too(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", NOWHERE)
    with pytest.raises(SpecError, match="nothing answers"):
        RayPool("auto")


def test_ray_is_an_extra(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    asked = ("--model", "llama-3-8b", "--gpus", "1xH100", "--slo", SLO)
    assert main(["plan", "sample", *asked, "--ray", "auto"]) == 2
    assert capsys.readouterr().err.endswith("pip install 'twofold[ray]'\n")
