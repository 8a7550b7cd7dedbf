import os

import pytest

from twofold.doctor import machine


@pytest.fixture
def group(tmp_path):
    def make(**files):
        for name, text in files.items():
            (tmp_path / name.replace("_", ".")).write_text(text)
        return tmp_path

    return make


def test_cores_without_a_quota(group):
    found = machine.cores(group(cpu_max="max 100000\n"))
    assert "no quota" in found.found
    assert f"of {os.cpu_count()} may be used" in found.found


def test_a_quota_below_the_cores_limits(group):
    found = machine.cores(group(cpu_max="50000 100000\n"))
    assert found.state == "limited"
    assert "0.5 cores" in found.found
    assert "--threads 1" in found.advice


@pytest.mark.parametrize("text", ["", "much", "0 0", "1"])
def test_a_quota_that_cannot_be_read_is_none(group, text):
    assert "no quota" in machine.cores(group(cpu_max=text)).found


def test_memory_is_what_a_container_leaves(group):
    info = "MemTotal: 8000000 kB\nMemAvailable: 6000000 kB\n"
    folder = group(meminfo=info)
    assert machine.memory(folder, folder / "meminfo").state == "ok"
    limited = group(memory_max="1000000000", memory_current="800000000")
    found = machine.memory(limited, folder / "meminfo")
    assert (found.state, "0.2 GB free" in found.found) == ("limited", True)


def test_a_system_that_tells_nothing_is_limited(tmp_path):
    assert machine.memory(tmp_path, tmp_path / "none").state == "limited"
    assert machine.vectors(tmp_path / "none").state == "limited"


@pytest.mark.parametrize(
    ("flags", "state", "advice"),
    [
        ("flags : sse avx2 avx512f", "ok", "int8"),
        ("flags : avx2 avx512_bf16", "ok", ""),
        ("flags : sse2", "limited", "slowly"),
    ],
)
def test_vectors(tmp_path, flags, state, advice):
    (tmp_path / "cpuinfo").write_text(f"processor : 0\n{flags}\n")
    found = machine.vectors(tmp_path / "cpuinfo")
    assert found.state == state
    assert advice in found.advice
