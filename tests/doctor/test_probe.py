"""A probe that hangs, dies or says nothing is told in words, and nothing of it is left."""

import os
import time

import pytest

from twofold.doctor.probe import ProbeError, probe

PROBES = """
import json, os, signal, subprocess, sys, time
open("child", "w").write("0")
name = sys.argv[1]
if name == "fine":
    print("noise")
    print(json.dumps({"here": 1}))
elif name == "hangs":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    open("child", "w").write(str(child.pid))
    time.sleep(600)
elif name == "dies":
    os.kill(os.getpid(), signal.SIGSEGV)
elif name == "fails":
    raise RuntimeError("no such device")
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "made_up_probes.py").write_text(PROBES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "made_up_probes"


def test_an_answer(module):
    assert probe("fine", 60, module) == {"here": 1}


def test_what_hangs_is_ended_with_its_children(module, tmp_path):
    with pytest.raises(ProbeError, match="no answer within 8 s"):
        probe("hangs", 8, module)
    child, end = int((tmp_path / "child").read_text() or 0), time.monotonic() + 60
    while alive(child):
        assert time.monotonic() < end
        time.sleep(0.05)


def alive(process):
    if process == 0:
        return False
    try:
        with open(f"/proc/{process}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("name", "told"), [("dies", "it died of SIGSEGV"), ("fails", "no such device"), ("silent", "it says nothing")]
)
def test_what_fails_says_why(module, name, told):
    with pytest.raises(ProbeError, match=told):
        probe(name, 60, module)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="it pins threads")
def test_the_lanes_of_this_machine():
    pytest.importorskip("torch")
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("lanes need two cores")
    found = probe("lanes", 120)
    assert found["disjoint"]
    assert sorted(core for lane in found["cores"] for core in lane) == sorted(os.sched_getaffinity(0))
