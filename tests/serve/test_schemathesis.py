"""The server's own document of its API, and all that Schemathesis makes of it, against a tiny model."""

import re
import subprocess
import sys
from importlib.util import find_spec

import pytest

pytest.importorskip("torch")

EXAMPLES, FEWEST_CASES, WITHIN_S = 50, 1000, 400
LEFT_OUT = "positive_data_acceptance"
"""A schema cannot say that a token exists, that an expression compiles, or that two fields go together."""
FLAGS = (
    f"--max-examples={EXAMPLES}",
    f"--exclude-checks={LEFT_OUT}",
    "--phases=coverage,fuzzing",
    "--generation-deterministic",
    "--request-timeout=30",
    "--no-color",
)


@pytest.mark.skipif(find_spec("schemathesis") is None, reason="schemathesis is not installed")
def test_what_the_document_says_holds(serving, tiny, wait, tmp_path):
    worker = {"model": str(tiny), "memory_bytes": 1 << 20, "context": 64}
    with serving(worker=worker, worker_command=[sys.executable, "-m", "twofold.serve.worker"]) as server:
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{server.address}/openapi.json", *FLAGS]
        shown = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=WITHIN_S)
        assert shown.returncode == 0, shown.stdout[-8000:] + shown.stderr[-2000:]
        (cases,) = re.findall(r"(\d+) generated", shown.stdout)
        assert int(cases) >= FEWEST_CASES
        wait(lambda: server.metric("vllm:num_requests_running") == server.metric("vllm:kv_cache_usage_perc") == 0)
        assert server.metric("twofold:worker_restarts_total") == 0
        assert not [line for line in server.log() if line["level"] not in ("info", "warning")]
