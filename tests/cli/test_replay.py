"""The verb on logs of a real engine: the same, the first difference, what is no log."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))
from test_decisions import EVERY, changed, served

OWN = """
import twofold
from twofold.scheduler.fill import take_decodes


@twofold.policy("replay-test")
def fill(s, r, k):
    take_decodes(s, r, k)
    return 0
"""
REQUESTS = [(0, 20, 6, 1), (3, 15, 5, 2), (0, 20, 4, 0), (40, 9, 7, 3)]


def written(path, events):
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return str(path)


@pytest.fixture(scope="module")
def example():
    return served("1B,chunked=6", REQUESTS, 14, {2})


@pytest.mark.parametrize("how", [(), ("--simulate",)], ids=["scheduler", "simulator"])
@pytest.mark.parametrize("policy", EVERY)
def test_every_policy_decides_the_same(here, tmp_path, policy, how):
    events = served(policy, REQUESTS, 14, {2})
    shown = here("replay", written(tmp_path / "log.jsonl", events), *how)
    assert (shown.code, shown.err) == (0, "")
    assert "the same, step for step" in shown.out
    plans, steps = (sum(event["event"] == kind for event in events) for kind in ("plan", "end"))
    assert f"{plans} plans" in shown.out
    assert f"{steps} steps" in shown.out
    assert "The scheduler took" in shown.out


@pytest.mark.parametrize("how", [(), ("--simulate",)], ids=["scheduler", "simulator"])
def test_an_altered_decision_is_shown_at_its_line(here, tmp_path, example, how):
    events, place = changed(example, "plan", 2, items=[[0, 1]])
    shown = here("replay", written(tmp_path / "log.jsonl", events), *how)
    assert shown.code == 1
    assert f"differ first at line {place + 1}: a step of lane 0" in shown.out
    assert "item 0: request 0 computes 1 prompt tokens" in shown.out


@pytest.mark.parametrize("how", [(), ("--simulate",)], ids=["scheduler", "simulator"])
@pytest.mark.parametrize("policy", ["prefill-first", "mixed", "request-level"])
def test_another_policy_is_shown_where_it_first_decides_otherwise(here, tmp_path, example, policy, how):
    group = example[0]["group"] | {"policy": policy, "budget_tokens": None}
    events, _ = changed(example, "start", group=group)
    shown = here("replay", written(tmp_path / "log.jsonl", events), *how)
    assert (shown.code, shown.err) == (1, "")
    assert "differ first at line" in shown.out


@pytest.mark.parametrize("how", [(), ("--simulate",)], ids=["scheduler", "simulator"])
def test_a_step_of_another_kind_is_shown_at_its_line(here, tmp_path, example, how):
    place = [number for number, event in enumerate(example) if event["event"] == "plan"][2]
    events = [*example[:place], example[place] | {"kind": "idle"}, *example[place + 1 :]]
    shown = here("replay", written(tmp_path / "log.jsonl", events), *how)
    assert shown.code == 1
    assert f"differ first at line {place + 1}: the kind of a step of lane 0" in shown.out


def test_a_policy_file_beside_a_log_of_a_policy_of_ours_is_refused(here, tmp_path, example):
    (tmp_path / "own.py").write_text(OWN)
    shown = here("replay", written(tmp_path / "log.jsonl", example), "--policy-file", "own.py")
    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert "the log is of chunked" in shown.err


def test_json(here, tmp_path, example):
    shown = here("replay", written(tmp_path / "log.jsonl", example), "--json")
    found = json.loads(shown.out)
    assert (shown.code, found["same"], found["difference"], found["policy"]) == (0, True, None, "chunked")
    assert sum(times["steps"] for times in found["steps_by_kind"].values()) == found["steps"]
    assert 0 < found["scheduler_share"] < 1


@pytest.mark.parametrize("how", [(), ("--simulate",)], ids=["scheduler", "simulator"])
@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda text: "", "begins with its start"),
        (lambda text: text[:-9], "this one has no end"),
        (lambda text: text.replace('"version": 2', '"version": 1'), "version 1"),
        (lambda text: text.partition("\n")[2], "begins with its start"),
        (lambda text: text.replace('"event": "plan"', '"event": "dream"'), "an event"),
        (lambda text: text.replace('"lane": 0', '"lane": 4'), "lane"),
        (lambda text: text.replace('"lane": 0', '"lane": null'), "lane"),
        (lambda text: "\x00\x00", "one JSON object a line"),
        (lambda text: text.partition("\n")[0] + "\n", None),
    ],
)
def test_what_is_no_log_is_one_line(here, tmp_path, example, spoil, told, how):
    path = Path(written(tmp_path / "log.jsonl", example))
    path.write_text(spoil(path.read_text()))
    shown = here("replay", str(path), *how)
    if told is None and not how:
        assert (shown.code, shown.err) == (0, "")
        return
    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert (told or "at least one request") in shown.err


def test_a_file_that_is_not_text_or_not_there_is_one_line(here, tmp_path):
    (tmp_path / "log.jsonl").write_bytes(b"\xff\xfe\xff")
    for name in ("log.jsonl", "none.jsonl"):
        shown = here("replay", str(tmp_path / name))
        assert (shown.code, shown.err.count("\n")) == (2, 1)
