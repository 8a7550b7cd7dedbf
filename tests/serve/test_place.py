"""Where a server and its worker meet, and what is left of it."""

import tempfile
from pathlib import Path

import pytest

from twofold.errors import SpecError
from twofold.serve.place import PREFIX, Place


@pytest.fixture
def short(monkeypatch):
    """A folder for temporary files whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield Path(folder)


def test_what_a_killed_server_leaves_is_removed_by_the_next_and_no_other(serving, short):
    with serving() as killed, serving() as living:
        assert len(list(short.iterdir())) == 2
        killed.process.kill()
        killed.process.wait(20)
        left = set(short.iterdir())
        with serving() as next_one:
            now = set(short.iterdir())
            assert len(left) == len(now) == 2
            assert len(left & now) == 1
            assert next_one.complete("a").status_code == living.complete("a").status_code == 200
            assert next_one.stop() == living.stop() == 0
    assert list(short.iterdir()) == []


def test_what_is_no_place_of_ours_stays(short):
    (short / f"{PREFIX}file").touch()
    (short / "another").mkdir()
    (short / f"{PREFIX}link").symlink_to(short / "another")
    Place().close()
    assert sorted(path.name for path in short.iterdir()) == ["another", f"{PREFIX}file", f"{PREFIX}link"]


def test_a_path_too_long_for_a_socket_is_refused(short, monkeypatch):
    deep = short / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with pytest.raises(SpecError, match="TMPDIR"):
        Place()
    assert list(deep.iterdir()) == []
