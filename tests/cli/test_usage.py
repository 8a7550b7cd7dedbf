from typing import Any

import pytest


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["simulat"], "VERB: 'simulat' is not accepted; did you mean simulate?"),
        (["wash"], "VERB: 'wash' is not accepted; accepted: simulate, compare, plan,"),
        (["plan", "--gpu", "1xH100"], "--gpu: no such flag; did you mean --gpus?"),
        (["plan", "--zzz"], "--zzz: no such flag; accepted: those of twofold plan --help"),
        (["models", "a", "b"], "arguments: 'b' is not accepted; accepted: what twofold models --help lists"),
        (["export"], "PLAN.json: missing; a plan that"),
        (["plan", "--top"], "--top: missing; a value is to follow the flag"),
        (["plan", "--json=yes"], "--json: a value is not accepted; give the flag alone"),
        (["stall", "--streams", "0"], "--streams"),
        (["stall", "--streams", "few"], "--streams"),
    ],
)
def test_a_wrong_command_line_is_one_line_of_our_own(here: Any, arguments: list[str], told: str) -> None:
    shown = here(*arguments)
    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert shown.err.startswith(f"twofold: {told}")


@pytest.mark.parametrize(
    "arguments", [["plan", "--gpu"], ["models", "a", "b"], ["stall", "--streams", "few"], ["export"]]
)
def test_no_words_of_a_library_are_left(here: Any, arguments: list[str]) -> None:
    told = here(*arguments).err
    assert not any(words in told for words in ("Missing argument", "Got unexpected", "No such option", "valid integer"))
