import json
from typing import Any

import pytest

MADE = ("--requests", "40", "--model", "llama-3-8b", "--device", "H100")


def test_simulate_keeps_so_many_under_way(here: Any) -> None:
    shown = here("simulate", *MADE, "--deploy", "1B", "--concurrency", "4", "--json")
    summary = json.loads(shown.out)
    assert (summary["concurrency"], summary["rate_req_s"], summary["completed"]) == (4, None, 40)
    assert "with 4 under way" in here("simulate", *MADE, "--deploy", "1B", "--concurrency", "4").out


def test_compare_keeps_so_many_under_way(here: Any) -> None:
    shown = here("compare", *MADE, "--deploy", "1B", "--deploy", "1B,async", "--concurrency", "4", "--json")
    assert [each["concurrency"] for each in json.loads(shown.out)["deployments"]] == [4, 4]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("--rate", "3"), "--rate"), (("--speedup", "2"), "--speedup"), (("--arrivals", "constant"), "--arrivals")],
)
def test_what_sets_times_is_refused(here: Any, arguments: tuple[str, ...], said: str) -> None:
    shown = here("simulate", *MADE, "--deploy", "1B", "--concurrency", "4", *arguments)
    assert shown.code == 2
    assert said in shown.err
