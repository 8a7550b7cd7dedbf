import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from twofold import cached

CLOSURES = """
import os
import sys
import time
from pathlib import Path

import numba

from twofold import cached

factor, folder, meeting = int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
keep_index = cached.SharedFiles._save_index


def meet(place, within_s):
    (meeting / f"{place}-{factor}").touch()
    end = time.monotonic() + within_s
    while len(list(meeting.glob(f"{place}-*"))) < 2 and time.monotonic() < end:
        time.sleep(0.01)


def late(files, overloads):
    meet("index read", 3.0)
    keep_index(files, overloads)


def times(factor):
    def product(x):
        return factor * x

    return product


with cached.kept_in(folder):
    product = numba.njit(cache=True)(times(factor))
if "meet" in sys.argv:
    save = cached.SharedFiles.save

    def together(files, key, data):
        meet("about to save", 120.0)
        save(files, key, data)

    cached.SharedFiles.save, cached.SharedFiles._save_index = together, late
print(product(10))
"""
FACTORS = (2, 3)


@pytest.fixture
def files(tmp_path) -> cached.SharedFiles:
    return cached.SharedFiles(str(tmp_path), "product", "stamp")


def start(script: Path, factor: int, folder: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(script), str(factor), str(folder), *more]
    environment = os.environ | {"NUMBA_DEBUG_CACHE": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def said(process: subprocess.Popen[str]) -> list[str]:
    try:
        return process.communicate(timeout=300)[0].splitlines()
    finally:
        process.kill()


def test_two_processes_that_save_at_once_keep_both_and_mix_up_neither(tmp_path):
    script, folder, meeting = tmp_path / "closures.py", tmp_path / "cache", tmp_path / "meeting"
    script.write_text(CLOSURES)
    meeting.mkdir()
    at_once = [start(script, factor, folder, str(meeting), "meet") for factor in FACTORS]
    assert [said(each)[-1] for each in at_once] == ["20", "30"]
    assert {path.name for path in meeting.iterdir()} >= {f"about to save-{factor}" for factor in FACTORS}
    for factor in FACTORS:
        lines = said(start(script, factor, folder, str(meeting)))
        assert lines[-1] == str(factor * 10)
        assert any("data loaded from" in line for line in lines)


def test_what_is_saved_is_read_again(files):
    files.save("one", b"code")
    files.save("two", b"more")
    assert (files.load("one"), files.load("two"), files.load("three")) == (b"code", b"more", None)


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: b"",
        lambda whole: whole[: len(whole) // 2],
        lambda whole: whole[:-1],
        lambda whole: bytes(len(whole)),
        lambda whole: whole[:9] + bytes([whole[9] ^ 1]) + whole[10:],
        lambda whole: pickle.dumps("as Numba alone would write it"),
    ],
    ids=["empty", "half", "a byte short", "zeros", "a bit", "no checksum"],
)
def test_a_broken_file_counts_as_none_and_is_written_anew(files, tmp_path, ending, damage):
    files.save("key", b"code")
    (path,) = tmp_path.glob(f"*.{ending}")
    path.write_bytes(damage(path.read_bytes()))
    assert files.load("key") is None
    files.save("key", b"code")
    assert files.load("key") == b"code"


def test_a_folder_that_takes_no_more_is_told_once(files, tmp_path, monkeypatch, caplog):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cached.SharedFiles, "_save_index", full)
    monkeypatch.setattr(cached, "_told", set())
    files.save("key", b"code")
    files.save("other", b"code")
    (record,) = caplog.records
    assert str(tmp_path) in record.getMessage()
    assert "No space left on device" in record.getMessage()
    assert "TWOFOLD_CACHE_DIR" in record.getMessage()


def test_without_locks_files_are_saved_all_the_same(files, monkeypatch):
    monkeypatch.setattr(cached, "fcntl", None)
    files.save("key", b"code")
    assert files.load("key") == b"code"
