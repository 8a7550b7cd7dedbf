import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from twofold.errors import SpecError
from twofold.spec.traces import read_workload, sample_workload

TRACES = Path(__file__).parents[2] / ".." / "shared" / "data" / "traces"
with_traces = pytest.mark.skipif(not TRACES.is_dir(), reason="the shared traces are not here")

PLAIN = "arrival_s,prompt_tokens,output_tokens\n"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


def mooncake(*rows: tuple[int, int, int, list[int]]) -> str:
    names = ("timestamp", "input_length", "output_length", "hash_ids")
    return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)


def test_azure_times_count_from_the_first_row(tmp_path: Path) -> None:
    rows = "2023-11-16 23:59:59.9799600,4808,10\r\n2023-11-17 00:00:00.0319600,3180,8\r\n"
    w = read_workload(write(tmp_path, "azure.csv", AZURE + rows)).validate()
    assert w.arrival_s.tolist() == [0.0, 0.052]
    assert w.prompt_tokens.tolist() == [4808, 3180]
    assert w.output_tokens.tolist() == [10, 8]
    assert w.name == "azure"


def test_azure_times_may_name_utc_and_leave_out_fractions(tmp_path: Path) -> None:
    rows = "2024-05-10 00:00:00+00:00,5,6\r\n2024-05-10 00:00:00.009930+00:00,7,8\r\n"
    assert read_workload(write(tmp_path, "a.csv", AZURE + rows)).arrival_s.tolist() == [0.0, 0.00993]


def test_bytes_that_are_not_text_are_refused(tmp_path: Path) -> None:
    for name in ("t.jsonl", "t.csv", "t.parquet"):
        (tmp_path / name).write_bytes(b"\xff\xfe\x00garbage\n\x80")
        with pytest.raises(SpecError):
            read_workload(tmp_path / name)


def test_mooncake_keeps_full_pieces_only(tmp_path: Path) -> None:
    text = mooncake((5000, 1100, 5, [0, 1, 2]), (6500, 1024, 7, [0, 9]), (7000, 100, 7, [4]))
    w = read_workload(write(tmp_path, "m.jsonl", text)).validate()
    assert w.arrival_s.tolist() == [0.0, 1.5, 2.0]
    assert w.hash_tokens == 512
    assert w.hash_start.tolist() == [0, 2, 4, 4]
    assert w.hash_ids.tolist() == [1, 2, 1, 10]


def test_more_hash_ids_than_pieces_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "m.jsonl", mooncake((0, 512, 5, [0]), (1, 512, 5, [0, 1])))
    with pytest.raises(SpecError, match=r"m\.jsonl, line 2, hash_ids: 1 is not accepted"):
        read_workload(path)


def test_plain_times_are_as_written_and_rows_in_order(tmp_path: Path) -> None:
    path = write(tmp_path, "t.csv", PLAIN + "3.5,10,1\n1.5,20,2\n3.5,30,3\n")
    w = read_workload(path).validate()
    assert w.arrival_s.tolist() == [1.5, 3.5, 3.5]
    assert w.prompt_tokens.tolist() == [20, 10, 30]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_every_plain_format_reads_the_same(tmp_path: Path, suffix: str) -> None:
    columns = {"arrival_s": [0.0, 0.5], "prompt_tokens": [7, 8], "output_tokens": [1, 2], "priority": [2, -1]}
    frame = pl.DataFrame(columns)
    path = tmp_path / f"t.{suffix}"
    writers = {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}
    writers[suffix](path)
    w = read_workload(path, suffix).validate()
    assert w.arrival_s.tolist() == columns["arrival_s"]
    assert w.prompt_tokens.tolist() == columns["prompt_tokens"]
    assert w.priority.tolist() == columns["priority"]


def test_hash_ids_of_a_parquet_trace_cover_the_tokens_it_says(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    rows = {
        "arrival_s": [0.0, 1.0],
        "prompt_tokens": [33, 5],
        "output_tokens": [1, 1],
        "hash_ids": [[5, 6], []],
    }
    pl.DataFrame(rows, schema_overrides={"hash_ids": pl.List(pl.Int64)}).write_parquet(path)
    w = read_workload(path, hash_tokens=16).validate()
    assert w.hash_start.tolist() == [0, 2, 2]
    assert w.hash_tokens == 16


def test_zero_outputs_count_as_one_token(tmp_path: Path) -> None:
    w = read_workload(write(tmp_path, "t.csv", PLAIN + "0,10,0\n1,10,3\n")).validate()
    assert w.output_tokens.tolist() == [1, 3]
    assert w.zero_outputs == 1
    assert w.describe()["zero_outputs"] == 1


def test_bare_lengths_need_a_rate(tmp_path: Path) -> None:
    path = write(tmp_path, "l.csv", "num_prefill_tokens,num_decode_tokens\n" + "5,6\n" * 400)
    with pytest.raises(SpecError, match=r"rate: missing; l\.csv has no arrival times"):
        read_workload(path)
    w = read_workload(path, rate=4.0, seed=3).validate()
    assert w.rate == pytest.approx(4, rel=0.2)
    assert w.content_key() == read_workload(path, rate=4.0, seed=3).content_key()
    assert w.content_key() != read_workload(path, rate=4.0, seed=4).content_key()


def test_a_rate_re_times_a_trace(tmp_path: Path) -> None:
    path = write(tmp_path, "t.csv", PLAIN + "0,10,1\n1,10,3\n3,10,3\n")
    assert read_workload(path, rate=8.0).rate == pytest.approx(8)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("0,10,1\n1,ten,1\n", r"t\.csv, line 3, prompt_tokens: 'ten' is not accepted"),
        ("0,10,1\n1,10\n", r"t\.csv, line 3, output_tokens: missing"),
        (
            "0,10,1\n1,0,1\n",
            r"t\.csv, line 3, prompt_tokens: '0' is not accepted; a whole number of tokens from 1",
        ),
        ("0,10,-1\n", r"t\.csv, line 2, output_tokens: '-1'"),
        ("0,10.5,1\n", r"t\.csv, line 2, prompt_tokens: '10\.5'"),
        ("0,nan,1\n", r"t\.csv, line 2, prompt_tokens: 'nan'"),
        ("-2,10,1\n", r"t\.csv, line 2, arrival_s: -2\.0"),
        ("soon,10,1\n", r"t\.csv, line 2, arrival_s: 'soon'"),
        ("0,10,1,5\n", r"unreadable"),
        ("", "the file has no rows"),
    ],
)
def test_a_bad_row_is_named_by_file_line_and_field(tmp_path: Path, rows: str, message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        read_workload(write(tmp_path, "t.csv", PLAIN + rows))
    assert "\n" not in str(caught.value)


def test_a_bad_timestamp_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", AZURE + "2023-11-16 18:17:03.9799600,1,1\r\n16/11/2023,1,1\r\n")
    with pytest.raises(SpecError, match=r"a\.csv, line 3, TIMESTAMP: '16/11/2023'"):
        read_workload(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{not json}", r"t\.jsonl, line 2: '\{not json\}' is not accepted; one JSON object a line"),
        ("[1, 2]", r"t\.jsonl, line 2"),
        (
            '{"arrival_s": 1, "prompt_tokens": "x", "output_tokens": 1}',
            r"t\.jsonl, line 2, prompt_tokens: 'x'",
        ),
        ('{"arrival_s": 1, "output_tokens": 1}', r"t\.jsonl, line 2, prompt_tokens: missing"),
    ],
)
def test_a_bad_json_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    good = '{"arrival_s": 0, "prompt_tokens": 4, "output_tokens": 1}\n'
    with pytest.raises(SpecError, match=message):
        read_workload(write(tmp_path, "t.jsonl", good + line + "\n"))


def test_unknown_columns_formats_and_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="a trace has the columns arrival_s"):
        read_workload(write(tmp_path, "t.csv", "a,b\n1,2\n"))
    with pytest.raises(SpecError, match="azure needs TIMESTAMP"):
        read_workload(write(tmp_path, "u.csv", PLAIN + "0,1,1\n"), "azure")
    with pytest.raises(SpecError, match="no such file"):
        read_workload(tmp_path / "missing.csv")
    with pytest.raises(SpecError, match="the formats are auto"):
        read_workload(tmp_path / "t.csv", "xml")
    with pytest.raises(SpecError, match="ends in one of"):
        read_workload(write(tmp_path, "t.txt", "x"))


def test_the_shipped_sample() -> None:
    w = sample_workload().validate()
    assert len(w) == 1920
    assert w.content_key() == read_workload("sample").content_key()
    assert 110 < w.span_s < 130
    assert int((w.prompt_tokens + w.output_tokens).max()) <= 8192


@with_traces
@pytest.mark.parametrize(
    ("name", "requests", "prompt", "output", "rate"),
    [
        ("azure2023_conv.csv", 19366, 1155, 211, 5.53),
        ("azure2023_code.csv", 8819, 2048, 28, 2.57),
        ("mooncake_conversation_trace.jsonl", 12031, 12035, 343, 3.40),
    ],
)
def test_production_traces(name: str, requests: int, prompt: float, output: float, rate: float) -> None:
    w = read_workload(TRACES / name).validate()
    assert len(w) == requests
    assert w.prompt_tokens.mean() == pytest.approx(prompt, abs=0.6)
    assert w.output_tokens.mean() == pytest.approx(output, abs=0.6)
    assert w.rate == pytest.approx(rate, abs=0.005)


@with_traces
def test_mooncake_pieces_match_the_prompts() -> None:
    w = read_workload(TRACES / "mooncake_synthetic_trace.jsonl").validate()
    assert (np.diff(w.hash_start) == w.prompt_tokens // 512).all()
