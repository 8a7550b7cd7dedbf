"""The name stands where a cost file stands, on the command line and in a scenario."""

import json

import pytest

from twofold.cli.main import main

TINY = {"layers": 2, "hidden": 256, "heads": 4, "kv_heads": 2, "head_dim": 64, "ffn": 512, "vocab": 1024}
SCENARIO = {
    "workload": {"rate": 1, "requests": 1, "prompt": "fixed:100", "output": "fixed:10", "arrivals": "constant"},
    "model": TINY | {"name": "tiny"},
    "device": "H100",
    "deployment": "1B",
}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs a scenario with these flags: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenario.yaml").write_text(json.dumps(SCENARIO))

    def shown(*flags: str) -> tuple[int, str, str]:
        code = main(["simulate", "scenario.yaml", *flags])
        return code, *capsys.readouterr()

    return shown


def test_kernels_take_the_place_of_a_file_and_the_host_is_set(kernels, run):
    flags = ("--cost", "silicon:vllm", "--json")
    times = []
    for host in ((), ("--set", "cost.step_s=0.002")):
        code, out, _ = run(*flags, *host)
        assert code == 0
        times.append(json.loads(out)["ttft_s"]["mean"])
    assert times[1] - times[0] == pytest.approx(2e-3)


def test_without_the_tables_the_command_ends_with_one_line_that_names_the_extra(run, monkeypatch):
    monkeypatch.setattr("twofold.cost.silicon.kernels.PACKAGE", "no_such_package")
    code, out, err = run("--cost", "silicon:vllm")
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert "pip install 'twofold[silicon]'" in err


def test_a_replica_that_was_not_measured_is_one_line(kernels, run):
    code, out, err = run("--cost", "silicon:vllm", "--device", "A100")
    assert (code, out) == (2, "")
    assert "accepted with silicon:vllm: H100" in err
