"""Which sets are found, which are named as skipped, and the page that is kept."""

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from twofold.errors import SpecError
from twofold.validate.contents import SOURCES, validate
from twofold.validate.markdown import markdown

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"
NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*")
INSTALLED = {"kernels.h100", "kernels.h200"}
"""These need a package that not every machine has."""
ROOM = 0.11
"""A last printed digit may differ on another machine."""


def test_sets_that_are_not_at_hand_are_named(tmp_path):
    (tmp_path / "vllm_runs" / "empty").mkdir(parents=True)
    report = validate(tmp_path)
    assert report.sets == ()
    assert set(report.skipped) == {source.id for source in SOURCES} - {"vllm"} | {"vllm.empty"}
    assert validate(tmp_path, "h2").skipped.keys() == {"h200"}


def test_an_id_that_nothing_begins_with_and_folders_without_a_set_are_one_line(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(SpecError, match=r"--data.*vllm_runs"):
            validate(folder)
    (tmp_path / "silicon").mkdir()
    with pytest.raises(SpecError, match="--only"):
        validate(tmp_path, "nothing")


def test_a_set_that_cannot_be_read_is_skipped_with_the_reason(tmp_path):
    (tmp_path / "vllm_runs" / "empty").mkdir(parents=True)
    assert "cannot be read" in validate(tmp_path, "vllm").skipped["vllm.empty"]
    (tmp_path / "splitwise").mkdir()
    (tmp_path / "splitwise" / "perf_model.csv").write_text("")
    assert "Splitwise's columns" in validate(tmp_path, "splitwise").skipped["splitwise"]


def test_the_page_is_what_the_command_writes(data):
    report = validate(data)
    assert set(report.skipped) <= INSTALLED
    fresh, kept = markdown(replace(report, skipped={})), without(PAGE.read_text(encoding="utf-8"), report.skipped)
    assert NUMBER.sub("#", fresh) == NUMBER.sub("#", kept)
    pairs = zip(NUMBER.findall(fresh), NUMBER.findall(kept), strict=True)
    drifted = [pair for pair in pairs if abs(_value(pair[0]) - _value(pair[1])) > ROOM]
    assert drifted == []


def without(page: str, sets: Iterable[str]) -> str:
    """The page less the sections of these sets, and the list of those that were not there when it was written."""
    sections = re.split(r"(?m)^(?=## )", page.partition("\n## Sets that are not here")[0])
    return "".join(each for each in sections if not any(f"`--only {name}`" in each for name in sets))


def _value(text: str) -> float:
    return float(text.replace(",", "").rstrip("."))
