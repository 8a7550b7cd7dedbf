"""``twofold fit`` against a server that speaks HTTP: first tokens after 50 ms, 10 ms between tokens, or later."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from fake_server import FIRST_S, GAP_S

from twofold.clients import fit as fits
from twofold.clients import fit_rounds

PROBES = ("--streams", "2", "--prompt-tokens", "256", "--seconds", "2min")
SPECS = ("--model", "llama-3-8b", "--device", "H100")
WRONG = [
    (["-o", "fit.csv", *SPECS], "--out"),
    (["-o", "nowhere/fit.json", *SPECS], "nowhere"),
    (["-o", "fit.json", "--device", "H100"], "--model"),
    (["-o", "fit.json", "--model", "llama-3-8b"], "--device"),
    (["-o", "fit.json", *SPECS, "--seconds", "0"], "--seconds"),
    (["-o", "fit.json", *SPECS, "--prompt-tokens", "9000"], "--prompt-tokens"),
    (["-o", "fit.json", *SPECS, "--prompt-tokens", "100"], "--prompt-tokens"),
    (["-o", "fit.json", *SPECS, "--served-name", "other"], "plain"),
    (["-o", "fit.json", *SPECS, "--streams", "1"], "--streams"),
    (SPECS, "--out"),
]


def test_a_server_becomes_a_cost_file_that_simulate_takes(
    here: Any, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit_rounds, "MOST_ROUNDS", 1)
    shown = here("fit", fake.url, "-o", "fit.json", *SPECS, *PROBES)
    assert (shown.code, shown.err) == (0, "")
    for words in ("held out", "prompt of", "Error", "tokens/s at 256 tokens", "--cost fit.json"):
        assert words in shown.out
    flags = ("--rate", "1", "--requests", "4", "--prompt", "fixed:100", "--output", "fixed:20", "--deploy", "1B,mixed")
    simulated = here("simulate", *flags, "--cost", "fit.json", "--json")
    assert simulated.code == 0
    summary = json.loads(simulated.out)
    assert FIRST_S * 0.95 < summary["ttft_s"]["p50"] < 100 * FIRST_S
    assert GAP_S * 0.9 < summary["tpot_s"]["p50"] < 100 * GAP_S


@pytest.mark.parametrize(("flags", "words"), WRONG)
def test_bad_flags_are_one_line(here: Any, fake: Any, flags: list[str], words: str, tmp_path: Path) -> None:
    shown = here("fit", fake.url, *flags)
    assert shown.code == 2
    assert words in shown.err
    assert shown.err.count("\n") == 1
    assert os.listdir(tmp_path) == []


def test_nothing_listens_there(here: Any) -> None:
    shown = here("fit", "http://127.0.0.1:9", "-o", "fit.json", *SPECS)
    assert (shown.code, shown.err.count("\n")) == (2, 1)
    assert "URL" in shown.err


def test_an_interrupt_leaves_the_file_that_was_there(
    here: Any, fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    (tmp_path / "fit.json").write_text("as it was")
    monkeypatch.setattr(fits, "ask", interrupted)
    shown = here("fit", fake.url, "-o", "fit.json", *SPECS, *PROBES)
    assert (shown.code, shown.err) == (130, "twofold: interrupted\n")
    assert (tmp_path / "fit.json").read_text() == "as it was"
    assert os.listdir(tmp_path) == ["fit.json"]
