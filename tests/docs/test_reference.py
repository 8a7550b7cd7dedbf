"""docs/reference.md names every flag, option, field, key and column that there is, and no flag that there is not."""

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import twofold
from twofold.cli.main import app
from twofold.cost.roofline import Roofline
from twofold.spec.conversations import Sessions, SharedPrefix
from twofold.spec.deployment import Deployment, Fault
from twofold.spec.group import POLICIES, Group
from twofold.spec.notation import SWITCHES, VALUED
from twofold.spec.scenario import Scenario
from twofold.spec.synthetic import Synthetic

TEXT = (Path(__file__).parents[2] / "docs" / "reference.md").read_text(encoding="utf-8")
WORDS = {word for code in re.findall(r"`([^`]+)`", TEXT) for word in re.findall(r"[\w.-]+", code)}
RECORDS = (Group, Deployment, Fault, Scenario, Synthetic, Sessions, SharedPrefix)


def flags() -> set[str]:
    commands: Any = get_command(app)
    parameters = [parameter for command in commands.commands.values() for parameter in command.params]
    found = {flag for parameter in parameters for flag in (*parameter.opts, *parameter.secondary_opts)}
    return {flag for flag in found if flag.startswith("--")}


def keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from keys(inner)


@pytest.fixture(scope="module")
def result() -> twofold.Result:
    where = twofold.deployment("1P1D", model="llama-3-8b", device="H100")
    return twofold.simulate(twofold.read_workload("sample").head(20), where, slo="ttft<=1s")


def test_every_flag_and_command_is_there() -> None:
    commands: Any = get_command(app)
    assert flags() - WORDS == set()
    assert all(f"twofold {name}" in TEXT for name in commands.commands)


def test_no_flag_is_there_that_does_not_exist() -> None:
    assert {word for word in WORDS if word.startswith("--")} - flags() - {"--help", "--version"} == set()


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_every_field_is_there(record: Any) -> None:
    assert set(record.model_fields) - WORDS == set()


def test_every_option_of_the_notation_is_there() -> None:
    assert {*VALUED, *SWITCHES, *POLICIES, "policy", "budget", "tp2", "pp2"} - {"decode"} - WORDS == set()


def test_every_constant_of_the_cost_model_is_there_with_its_default() -> None:
    for constant in fields(Roofline):
        row = re.search(rf"^\| `{constant.name}` \| (\S+) \|", TEXT, re.MULTILINE)
        assert row, constant.name
        assert float(row[1]) == getattr(Roofline(), constant.name)


def test_every_key_of_the_summary_is_there(result: twofold.Result) -> None:
    assert set(keys(result.summary())) - WORDS == set()


def test_every_column_is_there(result: twofold.Result) -> None:
    for frame in (result.requests, result.replicas, result.queue):
        assert set(frame.columns) - WORDS == set()


def test_every_default_of_a_group_is_as_written() -> None:
    rows = re.findall(r"^\| `[^|]*` \| `(\w+)` \| ([\d.]+)(?: s)? \|", TEXT, re.MULTILINE)
    assert len(rows) > 10
    for field, written in rows:
        default = Group.model_fields[field].default
        assert float(written) == (512 if field == "budget_tokens" else default), field


def test_every_public_name_is_there() -> None:
    names = {name for name in twofold.__all__ if not name.startswith("_")}
    assert {name for name in names if not re.search(rf"twofold\.{name}\b", TEXT)} == set()
