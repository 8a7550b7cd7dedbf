import os
import subprocess
import sys
from pathlib import Path

from twofold import compiled

SMALL_RUN = """
import numpy as np, twofold
workload = twofold.Workload("two", np.array([0.0, 0.1]), np.array([100, 900]), np.array([5, 7]))
print(twofold.simulate(workload, twofold.deployment("1B", model="llama-3-8b", device="H100")).e2e_s.tolist())
"""


def run_once() -> list[str]:
    """What a process prints, with a line of Numba's for each function that it takes from the cache or puts there."""
    environment = os.environ | {"NUMBA_DEBUG_CACHE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SMALL_RUN], capture_output=True, text=True, check=True, env=environment, timeout=500
    )
    return done.stdout.splitlines()


def test_the_next_process_finds_all_compiled_code_again():
    first, second = run_once(), run_once()
    assert first[-1] == second[-1]
    assert any("data loaded from" in line for line in second)
    assert not any("data saved to" in line for line in second)


def test_the_cache_is_named_by_the_content_of_the_sources(tmp_path, monkeypatch):
    for floor in compiled.FLOORS:
        (tmp_path / floor).mkdir()
        (tmp_path / floor / "code.py").write_text("x = 1\n")
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "compiled.py"))
    before = compiled.fingerprint()
    assert compiled.fingerprint() == before
    (tmp_path / compiled.FLOORS[0] / "code.py").write_text("x = 2\n")
    assert compiled.fingerprint() != before


def test_a_cache_folder_of_ones_own_is_used(tmp_path):
    environment = os.environ | {"TWOFOLD_CACHE_DIR": str(tmp_path)}
    code = "from twofold import compiled; print(compiled.CACHE)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert Path(done.stdout.strip()).parent == tmp_path / "compiled"


def test_old_versions_of_the_code_are_swept(tmp_path, monkeypatch):
    monkeypatch.setenv("TWOFOLD_CACHE_DIR", str(tmp_path))
    for age in range(5):
        stale = tmp_path / "compiled" / f"old{age}"
        stale.mkdir(parents=True)
        os.utime(stale, (age, age))
    current = compiled._open_cache()
    left = set(current.parent.iterdir())
    assert len(left) == compiled.KEPT_VERSIONS
    assert current in left
    assert current.parent / "old0" not in left


DOUBLE = """
from pathlib import Path
from twofold.compiled import CACHE, compiled

@compiled
def double(x):
    return 2 * x

print(double(21))
print(CACHE)
"""


def run_double(folder: Path, script: Path) -> tuple[list[str], str]:
    script.write_text(DOUBLE)
    environment = os.environ | {"TWOFOLD_CACHE_DIR": str(folder), "NUMBA_DEBUG_CACHE": "1"}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True, env=environment, timeout=300
    )
    return done.stdout.splitlines(), done.stderr


def test_broken_machine_code_is_compiled_anew(tmp_path):
    script = tmp_path / "double.py"
    run_double(tmp_path / "cache", script)
    for broken in ("*.nbi", "*.nbc"):
        for path in (tmp_path / "cache").rglob(broken):
            path.write_bytes(path.read_bytes()[:-40])
        lines, errors = run_double(tmp_path / "cache", script)
        assert (lines[-2], errors) == ("42", "")
        assert any("data saved to" in line for line in lines)
        assert not any("data saved to" in line for line in run_double(tmp_path / "cache", script)[0])


def test_a_cache_that_cannot_be_written_is_told_in_one_line_and_leaves_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    lines, errors = run_double(tmp_path / "file" / "cache", tmp_path / "double.py")
    assert lines[-2] == "42"
    assert errors.count("\n") == 1
    assert str(tmp_path / "file" / "cache") in errors
    assert "TWOFOLD_CACHE_DIR" in errors
    assert not Path(lines[-1]).exists()
    assert Path(lines[-1]).name.startswith("twofold-")
