from pathlib import Path

import numpy as np
import polars as pl
import pytest
from stubs import outcome

import twofold
from twofold.clients.load import Applied, Outcome
from twofold.clients.measured import Measured
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload

SLO = Slo.parse("ttft<=0.5s, tbt<=0.3s @50%")
OUTCOMES = [
    outcome(100.0, [100.2, 100.3, 100.5], sent_s=100.01),
    outcome(101.0, [101.7, 101.8]),
    outcome(102.0, [102.1, 102.2], kind="disconnect"),
    outcome(103.0, [], kind="http 429"),
    Outcome(104.0),
]


def measured(outcomes: list[Outcome] = OUTCOMES, concurrency: int | None = None) -> Measured:
    count = len(outcomes)
    prompts, outputs = np.full(count, 10, np.int32), np.full(count, 3, np.int32)
    workload = Workload("made", 7.0 + np.arange(count), prompts, outputs)
    return Measured(workload, SLO, Applied(outcomes, 0.55, False), concurrency)


def test_times_are_counted_from_when_a_request_was_due() -> None:
    found = measured()
    nan = float("nan")
    assert found.ttft_s == pytest.approx([0.2, 0.7, 0.1, nan, nan], nan_ok=True)
    assert found.e2e_s == pytest.approx([0.5, 0.8, nan, nan, nan], nan_ok=True)
    assert found.tpot_s == pytest.approx([0.15, 0.1, nan, nan, nan], nan_ok=True)
    assert found.max_tbt_s == pytest.approx([0.2, 0.1, nan, nan, nan], nan_ok=True)
    assert sorted(found.gaps_s) == pytest.approx([0.1, 0.1, 0.1, 0.2])
    assert (found.tbt_quantile(0.75), found.tbt_quantile(0.76)) == pytest.approx((0.1, 0.2))


def test_summary_counts_what_became_of_the_requests() -> None:
    summary = measured().summary()
    assert (summary["completed"], summary["rejected"], summary["unfinished"]) == (2, 1, 2)
    assert summary["attainment"] == pytest.approx(1 / 5)
    assert summary["duration_s"] == pytest.approx(3.0)
    assert summary["throughput_tokens_s"] == pytest.approx(5 / 3)
    assert summary["goodput_req_s"] == pytest.approx(1 / 3)
    assert summary["failures"] == {
        "disconnect": {"count": 1, "message": "the message"},
        "http 429": {"count": 1, "message": "the message"},
    }
    client = summary["client"]
    assert client["late_s"]["max"] == pytest.approx(0.01)
    assert client["cpu_share"] == pytest.approx(0.55 / 3)
    assert (client["other_prompts"], client["other_outputs"], client["untimed_tokens"]) == (0, 1, 0)


def test_the_keys_are_those_of_a_simulated_run_and_the_known_ones_have_its_form() -> None:
    where = twofold.deployment("1B", model="llama-3-8b", device="H100")
    simulated = twofold.simulate(twofold.read_workload("sample").head(5), where, slo="ttft<=1s").summary()
    summary = measured().summary()
    assert set(simulated) - set(summary) == {"model"}
    assert set(summary) - set(simulated) == {"failures", "client"}
    for key in ("ttft_s", "tbt_s", "tpot_s", "e2e_s"):
        assert set(summary[key]) == set(simulated[key])
        assert summary[key]["p50"] <= summary[key]["p99"] <= summary[key]["max"]


def test_a_closed_loop_has_no_rate() -> None:
    assert measured(concurrency=4).summary()["rate_req_s"] is None
    assert measured().summary()["rate_req_s"] == pytest.approx(1.0)


def test_a_load_without_an_answer_has_no_latencies() -> None:
    summary = measured([outcome(1.0, [], kind="connect")] * 2).summary()
    assert summary["ttft_s"]["p99"] is summary["tbt_s"]["mean"] is summary["e2e_s"]["max"] is None
    assert (summary["completed"], summary["throughput_req_s"], summary["attainment"]) == (0, 0.0, 0.0)


def test_answers_of_another_length_and_tokens_without_a_time_are_counted() -> None:
    odd = outcome(0.0, [0.1, 0.2])
    odd.answer.prompt_tokens, odd.answer.completion_tokens = 11, 4
    client = measured([odd]).summary()["client"]
    assert (client["other_prompts"], client["other_outputs"], client["untimed_tokens"]) == (1, 1, 2)


def test_rows_are_written(tmp_path: Path) -> None:
    found = measured()
    for name in ("r.csv", "r.parquet"):
        found.write_requests(tmp_path / name)
    rows = pl.read_parquet(tmp_path / "r.parquet")
    assert rows["status"].to_list() == ["completed", "completed", "unfinished", "rejected", "unfinished"]
    assert rows["arrival_s"].to_list() == pytest.approx([7.0, 8.0, 9.0, 10.0, 11.0])
    assert rows["gaps_s"].to_list()[0] == pytest.approx([0.1, 0.2])
    assert rows["failure"].to_list()[3] == "http 429: the message"
    assert pl.read_csv(tmp_path / "r.csv")["ttft_s"].to_list() == rows["ttft_s"].to_list()
