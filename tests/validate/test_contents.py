"""Which sets are found, which are named as skipped, and the page that is kept."""

import re
from pathlib import Path

import pytest

from twofold.errors import SpecError
from twofold.validate.contents import SOURCES, validate
from twofold.validate.markdown import markdown

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"
NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*")
ROOM = 0.11
"""A last printed digit may differ on another machine."""


def test_sets_that_are_not_at_hand_are_named(tmp_path):
    report = validate(tmp_path)
    assert report.sets == ()
    assert set(report.skipped) == {source.id for source in SOURCES}
    assert validate(tmp_path, "h2").skipped.keys() == {"h200"}


def test_an_id_that_nothing_begins_with_and_a_missing_folder_are_one_line(tmp_path):
    with pytest.raises(SpecError, match="--only"):
        validate(tmp_path, "nothing")
    with pytest.raises(SpecError, match="--data"):
        validate(tmp_path / "nowhere")


def test_a_set_that_cannot_be_read_is_skipped_with_the_reason(tmp_path):
    (tmp_path / "vllm_runs" / "empty").mkdir(parents=True)
    assert "cannot be read" in validate(tmp_path, "vllm").skipped["vllm.empty"]


def test_the_page_is_what_the_command_writes(data):
    fresh, kept = markdown(validate(data)), PAGE.read_text(encoding="utf-8")
    assert NUMBER.sub("#", fresh) == NUMBER.sub("#", kept)
    pairs = zip(NUMBER.findall(fresh), NUMBER.findall(kept), strict=True)
    drifted = [pair for pair in pairs if abs(_value(pair[0]) - _value(pair[1])) > ROOM]
    assert drifted == []


def _value(text: str) -> float:
    return float(text.replace(",", "").rstrip("."))
