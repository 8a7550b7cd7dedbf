import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from twofold.cli.bench_report import goodput_table

MADE = ("--requests", "4", "--prompt", "fixed:30", "--output", "fixed:4")
GOODPUT = ("--find-goodput", "--slo", "ttft<=1s")
FIELDS = ("ttft_s", "tbt_s", "tpot_s", "e2e_s")


def test_json_of_one_server(here: Any, fake: Any, tmp_path: Path) -> None:
    shown = here("bench", fake.url, *MADE, "--rate", "40", "--slo", "ttft<=30s", "--json", "--per-request", "r.parquet")
    assert (shown.code, shown.err) == (0, "")
    found = json.loads(shown.out)
    assert (found["url"], found["model"], found["completed"], found["attainment"]) == (fake.url, "plain", 4, 1.0)
    assert all(found[field]["p99"] > 0 for field in FIELDS)
    assert found["breakdown_s"] is None
    rows = pl.read_parquet(tmp_path / "r.parquet")
    assert rows["gaps_s"].list.len().to_list() == [3] * 4


def test_screen_of_one_server(here: Any, fake: Any) -> None:
    shown = here("bench", fake.url, *MADE, "--concurrency", "2", "--slo", "ttft<=30s")
    assert (shown.code, shown.err) == (0, "")
    for words in ("plain, 2 at once", "4 of 4 completed", "attainment", "sent late", "TTFT", "end to end"):
        assert words in shown.out
    assert "failed" not in shown.out
    assert shown.out.splitlines()[0] == "synthetic: 4 requests, 30.0 prompt and 4.00 output tokens on average"


def test_screen_tells_of_failures_and_other_lengths(here: Any, fake: Any) -> None:
    shown = here("bench", fake.url, *MADE, "--rate", "40", "--output", "fixed:102")
    assert "4 failed, the first: fault 500" in shown.out
    shown = here("bench", fake.url, *MADE, "--rate", "40", "--output", "fixed:9", "--model", "strict")
    assert "4 have another length than asked for; the server takes neither ignore_eos nor min_tokens" in shown.out


def test_a_trace_is_played_to_two_servers_side_by_side(here: Any, fake: Any, tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,20,5\n1,30,6\n2,40,7\n3,50,8\n")
    arguments = (fake.url, f"{fake.url}/v1", "trace.csv", "--requests", "3", "--rate", "40", "--model", "plain")
    shown = here("bench", *arguments)
    assert (shown.code, shown.err) == (0, "")
    assert [line.split()[0] for line in shown.out.splitlines()[3:5]] == [fake.url, f"{fake.url}/v1"]
    assert shown.out.count("3/3") == 2
    found = json.loads(here("bench", *arguments, "--json").out)["servers"]
    assert [one["completed"] for one in found] == [3, 3]
    bodies = [record["body"] for record in fake.recall()["seen"] if record["body"]["max_tokens"] > 1]
    assert [body["max_tokens"] for body in bodies] == [5, 6, 7] * 4


def test_goodput_of_a_server(here: Any, fake: Any) -> None:
    shown = here("bench", fake.url, *MADE, "--rate", "40", "--find-goodput", "--slo", "ttft<=1ms", "--json")
    found = json.loads(shown.out)
    assert (found["goodput_req_s"], found["limit"]) == (0.0, "ttft")
    assert len(found["probes"]) > 2
    screen = goodput_table([found])
    assert f"{fake.url}: goodput 0 req/s within ttft<=1ms @90%; above, ttft fails" in screen
    assert screen.count("ttft\n") == len(found["probes"])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("localhost:8000",), "URL: 'localhost:8000'"),
        (("http://",), "URL: 'http://'"),
        (("http://127.0.0.1:1", *MADE, "--rate", "1"), "connect"),
        (("http://127.0.0.1:1",), "--rate and --requests"),
        (("http://127.0.0.1:1", "missing.csv"), "missing.csv"),
        (("http://127.0.0.1:1", "sample", "http://127.0.0.1:2"), "TRACE"),
        (("http://127.0.0.1:1", "sample", "other"), "TRACE"),
        (("http://127.0.0.1:1", "sample", "--find-goodput"), "--slo"),
        (
            ("http://127.0.0.1:1", "sample", "--find-goodput", "--slo", "ttft<=1s", "--concurrency", "2"),
            "--concurrency",
        ),
        (("http://127.0.0.1:1", "sample", "--find-goodput", "--slo", "ttft<=1s", "--per-request", "r.csv"), "--per-r"),
        (("http://127.0.0.1:1", "http://127.0.0.1:2", "sample", "--per-request", "r.csv"), "one URL"),
        (("http://127.0.0.1:1", "sample", "--per-request", "r.txt"), ".parquet"),
        (("http://127.0.0.1:1", "sample", "--timeout", "soon"), "--timeout"),
        (("http://127.0.0.1:1", "sample", "--timeout", "0"), "--timeout"),
        (("http://127.0.0.1:1", "sample", "--slo", "ttfb<=1s"), "slo"),
        (("http://127.0.0.1:1", "sample", "--concurrency", "0"), "concurrency"),
        (("http://127.0.0.1:1", "sample", "--concurrency", "2", "--rate", "3"), "--rate"),
        (("http://127.0.0.1:1", "sample", "--concurrency", "2", "--speedup", "3"), "--speedup"),
    ],
)
def test_bad_input_is_one_line(here: Any, arguments: tuple[str, ...], told: str) -> None:
    shown = here("bench", *arguments)
    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert told in shown.err
