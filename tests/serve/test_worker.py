"""The loop of a worker, with a socket that is a list."""

import os

from twofold.engine.environment import ENVIRONMENT
from twofold.errors import SpecError
from twofold.serve.link import worker_environment
from twofold.serve.protocol import pack, unpack
from twofold.serve.worker import Loop


class Socket:
    """Gives the messages of each turn, one turn a poll that finds nothing."""

    def __init__(self, *turns):
        self.turns, self.sent = [list(turn) for turn in turns], []

    def poll(self, wait_ms):
        if self.turns and not self.turns[0]:
            self.turns.pop(0)
            return 0
        return len(self.turns[0]) if self.turns else 0

    def recv(self):
        return pack(self.turns[0].pop(0))

    def send(self, data):
        self.sent.append(unpack(data))


class Runner:
    """Gives each request two tokens."""

    def __init__(self):
        self.open, self.aborted, self.steps = {}, [], 0

    def add(self, message):
        if message["id"] == "bad":
            raise SpecError("prompt", 1, "another")
        self.open[message["id"]] = 0

    def abort(self, request):
        self.aborted.append(request)
        self.open.pop(request, None)

    def has_work(self):
        return bool(self.open)

    def step(self):
        self.steps += 1
        items = []
        for name in list(self.open):
            self.open[name] += 1
            done = self.open[name] == 2
            items.append({"id": name, "tokens": [self.open[name]], "finish": "length" if done else None})
            if done:
                del self.open[name]
        return items

    def stats(self):
        return {"running": len(self.open)}


def add(name):
    return {"op": "add", "id": name}


def test_tokens_go_out_after_each_step_and_stop_ends_it():
    runner, socket = Runner(), Socket([add("a"), add("b")], [], [{"op": "stop"}])
    Loop(runner, socket, os.getppid()).run()
    items = [item for message in socket.sent for item in message["items"]]
    assert [(item["id"], item["tokens"]) for item in items] == [("a", [1]), ("b", [1]), ("a", [2]), ("b", [2])]
    assert socket.sent[0]["stats"] == {"running": 2}
    assert runner.steps == 2


def test_a_refusal_is_told_and_the_others_go_on():
    socket = Socket([add("bad"), add("a")], [], [{"op": "stop"}])
    Loop(Runner(), socket, os.getppid()).run()
    first = socket.sent[0]["items"][0]
    assert (first["id"], first["finish"], first["refused"]) == ("bad", "error", True)
    assert "another" in first["message"]
    assert [item["id"] for message in socket.sent for item in message["items"]] == ["bad", "a", "a"]


def test_an_abort_comes_before_the_next_step():
    runner, socket = Runner(), Socket([add("a")], [{"op": "abort", "id": "a"}], [{"op": "stop"}])
    Loop(runner, socket, os.getppid()).run()
    assert runner.aborted == ["a"]
    assert runner.steps == 1


def test_it_ends_when_nobody_is_left_to_listen(monkeypatch):
    loop = Loop(Runner(), Socket(), os.getppid())
    monkeypatch.setattr(os, "getppid", lambda: 1_000_000)
    loop.run()


def environment(monkeypatch, **given):
    for name in ("OMP_NUM_THREADS", *ENVIRONMENT):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return worker_environment(3)


def test_idle_threads_of_a_worker_sleep_unless_the_operator_says_otherwise(monkeypatch):
    assert environment(monkeypatch)["OMP_WAIT_POLICY"] == "PASSIVE"
    assert environment(monkeypatch)["OMP_NUM_THREADS"] == "3"
    assert environment(monkeypatch)["GLIBC_TUNABLES"] == "glibc.malloc.hugetlb=1"
    assert environment(monkeypatch, OMP_WAIT_POLICY="ACTIVE")["OMP_WAIT_POLICY"] == "ACTIVE"


def test_a_worker_keeps_few_products_prepared_unless_the_operator_says_otherwise(monkeypatch):
    capacities = ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")
    assert [environment(monkeypatch)[name] for name in capacities] == ["64", "64"]
    assert environment(monkeypatch, LRU_CACHE_CAPACITY="1024")["LRU_CACHE_CAPACITY"] == "1024"
