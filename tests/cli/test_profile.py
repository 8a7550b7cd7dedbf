import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

WRONG = [
    (["-o", "profile.csv"], "--out"),
    (["-o", "nowhere/profile.json"], "nowhere"),
    (["-o", "p.json", "--deploy", "3P2D"], "--deploy"),
    (["-o", "p.json", "--deploy", "1B,chunky"], "chunky"),
    (["-o", "p.json", "--memory", "much"], "--memory"),
    (["nowhere.gguf", "-o", "p.json"], "nowhere.gguf"),
    (["-o", "p.json", "--dtype", "fp8"], "dtype"),
    (["-o", "p.json", "--device", "cuda"], "--deploy"),
    ([], "--out"),
]


@pytest.mark.parametrize(("flags", "words"), WRONG)
def test_bad_flags_are_one_line(here: Callable[..., Any], flags: list[str], words: str) -> None:
    shown = here("profile", *flags)
    assert shown.code == 2
    assert words in shown.err
    assert shown.err.count("\n") == 1


def test_a_folder_is_no_file(here: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "p.json").mkdir()
    shown = here("profile", "-o", "p.json")
    assert (shown.code, shown.err.count("\n")) == (2, 1)


def test_an_interrupt_leaves_the_file_that_was_there(
    here: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from twofold.engine import load

    def interrupted(*given: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    (tmp_path / "p.json").write_text("as it was")
    monkeypatch.setattr(load, "load", interrupted)
    shown = here("profile", "-o", "p.json")
    assert (shown.code, shown.err) == (130, "twofold: interrupted\n")
    assert (tmp_path / "p.json").read_text() == "as it was"
    assert os.listdir(tmp_path) == ["p.json"]


@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupt_inside_a_library_is_still_one(
    here: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """The first is kept until the engine says how far it is, the second is raised where it comes."""
    from twofold.engine import load

    def interrupted(where: str, progress: Callable[[str, float], None], **named: Any) -> None:
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        progress("loading weights", 0.5)
        raise AssertionError("it went on")

    monkeypatch.setattr(load, "load", interrupted)
    assert here("profile", "-o", "p.json").code == 130
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert os.listdir(tmp_path) == []


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from twofold.cli import cost_file

    path = tmp_path / "p.json"
    cost_file.write_whole(path, {"dense": [[1, 0.5], [2, 0.75]], "words": "a, [ b ]"})
    assert "[1, 0.5]" in path.read_text()
    assert "a, [ b ]" in path.read_text()

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        cost_file.write_whole(path, {"dense": []})
    assert "0.75" in path.read_text()
    assert os.listdir(tmp_path) == ["p.json"]


def test_an_interrupt_is_answered_at_once(
    here: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the step that it comes in has ended, and in the first phases of measuring too."""
    from twofold.engine import load

    answered: list[str] = []

    def interrupted(where: str, progress: Callable[[str, float], None], **named: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        answered.append(capsys.readouterr().err)
        progress("loading weights", 0.5)

    monkeypatch.setattr(load, "load", interrupted)
    shown = here("profile", "-o", "p.json")
    assert answered == ["twofold: stopping at the end of this step; Ctrl-C again to stop at once\n"]
    assert (shown.code, shown.err) == (130, "twofold: interrupted\n")
