"""Starting and stopping."""

import contextlib
import json
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

FAKE_WORKER = Path(__file__).parent / "fake_worker.py"


def worker_of(server):
    """The ids of the processes that this server has started."""
    command = ["pgrep", "-P", str(server.process.pid)]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    return [int(line) for line in found.stdout.split()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_what_is_under_way_finish(serving, wait, number):
    with serving(step_s=0.02) as server:
        results = []
        thread = threading.Thread(target=lambda: results.append(server.complete("x" * 40)))
        thread.start()
        wait(lambda: server.metric("vllm:generation_tokens_total") > 0)
        server.process.send_signal(number)
        thread.join(10)
        assert results[0].json()["choices"][0]["text"] == "x" * 40
        assert server.process.wait(10) == 0


def test_nothing_new_is_taken_while_draining(serving, wait):
    with serving(step_s=0.02) as server:
        thread = threading.Thread(target=server.complete, args=("x" * 60,))
        thread.start()
        wait(lambda: server.metric("vllm:generation_tokens_total") > 0)
        server.process.send_signal(signal.SIGTERM)
        host, port = server.address.removeprefix("http://").split(":")
        time.sleep(0.3)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), 10)
        assert server.process.poll() is None
        thread.join(10)


def unanswered(server):
    with contextlib.suppress(httpx.HTTPError):
        server.complete("x", max_tokens=4000, ignore_eos=True)


def test_a_second_signal_is_immediate(serving, wait):
    with serving(step_s=0.05) as server:
        thread = threading.Thread(target=unanswered, args=(server,))
        thread.start()
        wait(lambda: server.metric("vllm:generation_tokens_total") > 0)
        workers = worker_of(server)
        assert len(workers) == 1
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(5)
        assert time.monotonic() - began < 2
        thread.join(5)
        assert not thread.is_alive()
        wait(lambda: not worker_of(server))


@pytest.mark.parametrize("signals", [1, 2])
def test_what_is_cut_short_is_told_that_the_server_stops(serving, wait, signals):
    answers = []
    with serving(step_s=0.05, drain_s=1) as server:
        thread = threading.Thread(target=lambda: answers.append(server.complete("a" * 200, max_tokens=200)))
        thread.start()
        wait(lambda: server.metric("vllm:generation_tokens_total") > 0)
        for _ in range(signals):
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
        text, _ = server.process.communicate(timeout=10)
        thread.join(10)
    assert [(answer.status_code, answer.json()["error"]["code"]) for answer in answers] == [(503, "stopping")]
    assert "Traceback" not in text


def test_draining_ends_after_its_time(serving, wait):
    with serving(step_s=0.05, drain_s=1) as server:
        thread = threading.Thread(target=unanswered, args=(server,))
        thread.start()
        wait(lambda: server.metric("vllm:generation_tokens_total") > 0)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(5) == 0
        thread.join(5)


def test_a_worker_ends_with_its_server(serving, wait):
    with serving() as server:
        (worker,) = worker_of(server)
        server.process.kill()
        server.process.wait(5)

        def gone():
            with open(f"/proc/{worker}/stat") as stat:
                return stat.read().rpartition(")")[2].split()[0] == "Z"

        def ended():
            try:
                return gone()
            except FileNotFoundError:
                return True

        wait(ended)


def test_a_worker_whose_server_ended_before_it_was_ready_ends(model, tmp_path):
    server = subprocess.Popen(["true"])
    server.wait(10)
    place = [f"ipc://{tmp_path}/nobody", "1", json.dumps({"model": str(model)}), str(server.pid)]
    worker = subprocess.run([sys.executable, FAKE_WORKER, "0.002", "0", *place], timeout=60)
    assert worker.returncode == 0


def test_a_taken_address_is_one_line(serving):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with serving(port=other.getsockname()[1]) as server:
            assert server.process.wait(10) == 1
            assert server.address == ""


def test_small_answers_leave_at_once(server):
    times = []
    for _ in range(40):
        began = time.perf_counter()
        assert server.complete("x").status_code == 200
        times.append(time.perf_counter() - began)
    assert sorted(times)[len(times) // 4] < 0.035


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="tells the limits of another process")
def test_connections_are_bounded_by_what_the_system_allows_and_not_by_the_shell(serving):
    few, most = 512, resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, most[1]))
    try:
        with serving() as server:
            assert resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE) == (most[1], most[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, most)
