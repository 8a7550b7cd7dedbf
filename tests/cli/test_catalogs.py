import json
import subprocess
from collections.abc import Callable

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize(
    ("verb", "name", "field"),
    [
        ("models", "llama-3-8b", "total_params"),
        ("devices", "H100", "bandwidth"),
        ("links", "NVLink4", "effective"),
    ],
)
def test_catalog_as_table_as_json_and_one_entry(twofold: Command, verb: str, name: str, field: str) -> None:
    entry = json.loads(twofold(verb, name, "--json").stdout)
    listed = json.loads(twofold(verb, "--json").stdout)[verb]
    table = twofold(verb).stdout.splitlines()
    assert entry in listed
    assert entry[field] > 0
    assert entry["source"]
    assert len(table) == len(listed) + 1
    assert any(line.startswith(entry["name"]) for line in table)
