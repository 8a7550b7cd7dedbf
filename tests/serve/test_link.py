"""What becomes of requests when their worker dies."""

import sys
import threading


def in_background(server, results, *prompts):
    def run(prompt):
        results[prompt] = server.complete(prompt)

    threads = [threading.Thread(target=run, args=(prompt,)) for prompt in prompts]
    for thread in threads:
        thread.start()
    return threads


def test_a_dead_worker_is_replaced_and_no_request_stays_open(slow, wait):
    restarts = slow.metric("twofold:worker_restarts_total")
    results = {}
    threads = in_background(slow, results, "CRASH and more", "a second one that is long enough")
    for thread in threads:
        thread.join(15)
    assert not any(thread.is_alive() for thread in threads)
    lost = results["CRASH and more"]
    assert lost.status_code == 503
    assert lost.json()["error"]["code"] == "worker_lost"
    assert slow.complete("hello").json()["choices"][0]["text"] == "hello"
    assert slow.metric("twofold:worker_restarts_total") == restarts + 1
    wait(lambda: slow.metric("vllm:num_requests_running") == 0)


def test_a_request_without_a_token_is_answered_by_the_next_worker(slow):
    restarts = slow.metric("twofold:worker_restarts_total")
    assert slow.complete("CRASHONCE").json()["choices"][0]["text"] == "CRASHONCE"
    assert slow.metric("twofold:worker_restarts_total") == restarts + 1


def test_a_stream_that_loses_its_worker_ends_with_an_error(slow):
    events = slow.events("/v1/completions", {"prompt": "CRASH"})
    assert events[-1]["error"]["code"] == "worker_lost"
    assert "".join(event["choices"][0]["text"] for event in events[:-1]) == "CRA"


def test_a_worker_that_dies_again_and_again_ends_the_server(serving):
    with serving(restarts=2) as server:
        assert server.complete("FATAL").json()["error"]["code"] == "worker_lost"
        assert server.complete("FATAL").json()["error"]["code"] == "no_worker"
        text, _ = server.process.communicate(timeout=20)
        assert server.process.returncode == 1
        assert "died" in text
        assert "secret" not in text


def test_a_worker_that_cannot_start_ends_the_server(serving):
    with serving(worker={"model": "missing"}) as server:
        assert "model: 'missing'" in server.address
        assert server.process.wait(10) == 1


def test_a_tokenizer_that_cannot_be_used_ends_the_server(serving, tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    worker = """import sys, time
from twofold.serve.worker import main

def make(settings, found):
    found({"op": "found", "tokenizer": settings.model, "chat_template": None})
    time.sleep(60)

sys.exit(main(sys.argv[1:], make))
"""
    command = [sys.executable, "-c", worker]
    with serving(worker={"model": str(tmp_path)}, worker_command=command) as server:
        assert "tokenizer" in server.address
        assert server.process.wait(20) == 1
