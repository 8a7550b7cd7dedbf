"""How much memory the KV pool may take."""

from twofold.serve import memory


def test_a_quarter_of_what_is_free(monkeypatch, tmp_path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9000 kB\nMemAvailable:    4000 kB\n")
    monkeypatch.setattr(memory, "MEMINFO", meminfo)
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    assert memory.free_memory("cpu", 0.9) == 1000 * 1024
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("5\n")
    assert memory.free_memory("cpu", 0.9) == 1000 * 1024
    (tmp_path / "memory.max").write_text("405\n")
    assert memory.free_memory("cpu", 0.9) == 100
