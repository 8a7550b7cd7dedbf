import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WRONG = [
    (["--deploy", "3P2D"], "--deploy"),
    (["--deploy", "1B,chunky"], "chunky"),
    (["--slo", "tpot<=20ms"], "--slo"),
    (["--max-body", "much"], "--max-body"),
    (["--deadline", "soon"], "--deadline"),
    (["--max-queue", "0"], "max_queue"),
    (["--port", "70000"], "port"),
    (["--log-level", "loud"], "--log-level"),
    (["--api-key-file", "none.txt"], "none.txt"),
]


@pytest.mark.parametrize(("flags", "words"), WRONG)
def test_bad_flags_are_one_line(here: Callable[..., Any], flags: list[str], words: str) -> None:
    shown = here("serve", *flags)
    assert shown.code == 2
    assert words in shown.err
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize("model", ["nonsense", "nowhere.gguf", "empty", "."])
def test_what_is_no_model_is_told_before_anything_starts(here: Callable[..., Any], tmp_path: Path, model: str) -> None:
    (tmp_path / "empty").mkdir()
    shown = here("serve", model, "--port", "0")
    assert (shown.code, shown.err.count("\n")) == (2, 1)
    assert model in shown.err


def test_what_only_the_worker_can_tell_is_bad_input_too(twofold: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "damaged.gguf").write_bytes(b"GGUF" + bytes(100))
    shown = twofold("serve", "damaged.gguf", "--port", "0")
    assert shown.returncode == 2
    assert "damaged.gguf" in shown.stderr.splitlines()[-1]
    assert "Traceback" not in shown.stderr


def test_help_needs_no_torch() -> None:
    code = "import sys; from twofold.cli.main import main; main(['serve', '--help']); print(json.dumps([*sys.modules]))"
    shown = subprocess.run(
        [sys.executable, "-c", f"import json; {code}"], capture_output=True, text=True, check=True
    ).stdout
    loaded = json.loads(shown.splitlines()[-1])
    assert not {"torch", "starlette", "numba"} & set(loaded)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--dtype", "fp7"], "dtype: 'fp7' is not accepted; accepted: fp32 or bf16"),
        (["--quantize", "int1"], "quantize: 'int1' is not accepted; accepted: int8, or none"),
        (["--device", "gpu"], "device: 'gpu' is not accepted; accepted: cpu or cuda; cuda:1 is the second"),
    ],
)
def test_what_is_refused_at_once_is_not_said_to_load(
    here: Callable[..., Any], flags: list[str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twofold.serve.model_files.check_model", lambda where: None)
    shown = here("serve", *flags)
    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert shown.err.startswith(f"twofold: {told}")


def test_an_address_that_cannot_be_had_is_refused_before_it_is_said_to_load(twofold: Callable[..., Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for place in (f"127.0.0.1:{port}", f"203.0.113.1:{port}"):
            shown = twofold("serve", "--host", place.partition(":")[0], "--port", str(port))
            assert (shown.returncode, shown.stdout, shown.stderr.count("\n")) == (2, "", 1)
            assert shown.stderr.startswith(
                f"twofold: --host and --port: '{place}' is not accepted; accepted: an address"
            )


def test_a_plan_for_other_devices_is_refused(here: Callable[..., Any]) -> None:
    asked = ("--model", "llama-3-8b", "--gpus", "1xH100", "--slo", "ttft<=0.5s, tpot<=50ms @90%")
    quick = ("--requests", "40", "--resamples", "0", "--top", "1", "--save", "plan.json", "--no-cache")
    assert here("plan", "sample", *asked, *quick).code == 0
    shown = here("serve", "--deploy", "plan.json")
    assert (shown.code, shown.err.count("\n")) == (2, 1)
    assert "a plan for H100" in shown.err


def test_a_damaged_cost_file_is_told_before_anything_starts(here: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "cost.json").write_text("{")
    shown = here("serve", "--cost", "cost.json")
    assert (shown.code, shown.err.count("\n")) == (2, 1)
    assert "cost.json" in shown.err


def test_a_cuda_device_is_told_with_what_runs_on_it(capsys: pytest.CaptureFixture[str]) -> None:
    from twofold.cli import serve
    from twofold.serve.settings import WorkerSettings

    serve.tell_device(WorkerSettings(device="cuda:0", dtype="bf16", deployment="1B@H100,multiplexed"))
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert told.err.startswith("twofold: cuda:0: attention by ")
    assert "lanes on green contexts; none of it has been run on a device" in told.err
    serve.tell_device(WorkerSettings())
    assert capsys.readouterr().err == ""
