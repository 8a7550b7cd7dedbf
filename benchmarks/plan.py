"""A certified plan: whole processes of the command with a warm compile cache and without earlier simulations."""

import argparse
import json
import resource
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import print_table, verdict
from benchmarks.startup import TWOFOLD, children_cpu_s

TRACE = Path(__file__).parents[2] / "shared" / "data" / "traces" / "azure2023_conv.csv"
SCENARIOS = (
    ("Llama-3-8B", "8xH100", "ttft<=0.5s, tpot<=20ms @90%", 10.0),
    ("OPT-175B", "32xA100", "ttft<=4s, tpot<=0.2s @90%", 60.0),
)
REQUESTS = "5000"
GIB = 1.0
HEADER = ("model", "devices", "candidates", "simulated", "gap", "s", "CPU s", "GiB", "goal s")


def planned(trace: str, model: str, gpus: str, slo: str) -> tuple[dict[str, float], float, float]:
    """The certificate of a plan, wall seconds and CPU-seconds of its process."""
    command = [TWOFOLD, "plan", trace, "--requests", REQUESTS, "--model", model, "--gpus", gpus, "--slo", slo]
    start, cpu = time.perf_counter(), children_cpu_s()
    done = subprocess.run([*command, "--no-cache", "--json"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["certificate"], time.perf_counter() - start, children_cpu_s() - cpu


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one row a scenario; the first plan warms the compile cache."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plan", description=__doc__)
    parser.add_argument("--trace", default=str(TRACE) if TRACE.is_file() else "sample")
    options = parser.parse_args(arguments)
    planned("sample", "Llama-3-8B", "1xH100", SCENARIOS[0][2])
    rows = []
    for model, gpus, slo, goal in SCENARIOS:
        certificate, seconds, cpu = planned(options.trace, model, gpus, slo)
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / (1 << 20)
        simulated = certificate["pruned_by_probe"] + certificate["measured"]
        rows.append(
            [model, gpus, f"{certificate['candidates']}", f"{simulated}", f"{certificate['gap']:.1%}", f"{seconds:.1f}",
             f"{cpu:.1f}", f"{most:.2f} {verdict(most <= GIB)}", f"{goal:.0f} {verdict(seconds <= goal)}"]
        )  # fmt: skip
    print_table(HEADER, rows)


if __name__ == "__main__":
    main()
