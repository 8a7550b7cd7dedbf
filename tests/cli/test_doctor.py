import json
import subprocess
import sys

import pytest

from twofold.doctor import checks
from twofold.doctor.finding import Finding


def found(*findings):
    def every(deadline_s):
        assert deadline_s > 0
        yield from findings

    return every


FINE = Finding("cores", "ok", "2 of 2 may be used")
LESS = Finding("CUDA", "missing", "no device", "buy one")
BROKEN = Finding("packages", "broken", "not installed: numpy", "pip install twofold")


def test_what_is_missing_is_no_failure(here, monkeypatch):
    monkeypatch.setattr(checks, "findings", found(FINE, LESS))
    shown = here("doctor")
    assert (shown.code, shown.err) == (0, "")
    assert "missing  CUDA" in shown.out
    assert "-> buy one" in shown.out


def test_what_is_needed_and_broken_is(here, monkeypatch):
    monkeypatch.setattr(checks, "findings", found(FINE, BROKEN))
    shown = here("doctor", "--json")
    assert shown.code == 1
    told = json.loads(shown.out)
    assert told["ok"] is False
    assert told["findings"][1] == BROKEN.to_dict()


@pytest.mark.parametrize("value", ["soon", "0s", "-1s", "inf"])
def test_a_deadline_is_a_time(here, value):
    shown = here("doctor", "--timeout", value)
    assert (shown.code, shown.err.count("\n")) == (2, 1)


def test_this_machine_is_looked_at_without_torch_here():
    code = (
        "import sys; from twofold.cli.main import main; code = main(['doctor', '--json', '--timeout', '100s']);"
        "print(sorted({'torch'} & set(sys.modules)), code, file=sys.stderr)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=400)
    assert shown.stderr.splitlines()[-1] == "[] 0"
    told = json.loads(shown.stdout)
    assert {"cores", "memory", "vectors", "packages", "compiled code", "model", "torch", "port"} <= {
        each["subject"] for each in told["findings"]
    }
