"""Simulated requests per CPU-second: ``simulate`` and its summary, all metrics on, one process.

The base of the ratio is the same code as plain Python (NUMBA_DISABLE_JIT=1) on the first requests of the trace.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import twofold
from benchmarks.measure import print_table, timed, verdict
from twofold import Workload

ROOT = Path(__file__).parents[1]
TRACE = ROOT / ".." / "shared" / "data" / "traces" / "azure2023_conv.csv"
SLO = "ttft<=0.5s, tpot<=20ms @90%"
GOALS = {"1B,chunked=512": 300_000, "4P2D": 150_000}
DEPLOYMENTS = (
    *GOALS,
    "4B,chunked=512",
    "1B,chunked=25ms",
    "1B,mixed",
    "1B,prefill-first",
    "1B,multiplexed",
    "1B,tp2,pp2,chunked=512",
)
HEADER = ("deployment", "req/CPU-s best", "median", "wall ms", "x step by step", "x plain Python", "goal")


def read(trace: str, requests: int | None) -> Workload:
    """The workload of a trace, or its first requests."""
    workload = twofold.read_workload(trace)
    return workload if requests is None else workload.head(requests)


def run(workload: Workload, deploy: str, options: argparse.Namespace, step_by_step: bool = False) -> None:
    """One run with everything that is measured, and its summary."""
    deployment = twofold.deployment(deploy, model=options.model, device=options.device)
    twofold.simulate(workload, deployment, SLO, step_by_step=step_by_step).summary()


def plain_seconds(deploy: str, options: argparse.Namespace) -> float:
    """CPU-seconds a request of the same code in a process that compiles nothing."""
    command = [sys.executable, "-m", "benchmarks.simulate_speed", options.trace, "--only-seconds", "--runs", "1"]
    command += ["--deploy", deploy, "--model", options.model, "--device", options.device]
    command += ["--requests", str(options.plain_requests)]
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    return float(done.stdout)


def row(workload: Workload, deploy: str, options: argparse.Namespace) -> list[str]:
    """Measure one deployment."""
    run(workload.head(50), deploy, options)
    times = timed(lambda: run(workload, deploy, options), options.runs)
    slow = timed(lambda: run(workload, deploy, options, True), 1)
    n, goal = len(workload), GOALS.get(deploy)
    plain = plain_seconds(deploy, options) if options.plain_requests else None
    return [
        deploy,
        f"{n / times.best_s:,.0f}",
        f"{n / times.median_s:,.0f}",
        f"{1e3 * min(times.wall_s):.0f}",
        f"{slow.best_s / times.best_s:.1f}",
        "" if plain is None else f"{plain * n / times.best_s:,.0f}",
        "" if goal is None else f"{goal:,} {verdict(n / times.best_s >= goal)}",
    ]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulate_speed", description=__doc__)
    parser.add_argument("trace", nargs="?", default=str(TRACE.resolve()) if TRACE.exists() else "sample")
    parser.add_argument("--deploy", action="append", help="may be repeated; default: one of each kind")
    parser.add_argument("--model", default="llama-3-8b")
    parser.add_argument("--device", default="H100")
    parser.add_argument("--runs", type=int, default=9, help="runs a deployment, after one that is not counted")
    parser.add_argument("--requests", type=int, help="only the first requests of the trace")
    parser.add_argument("--plain-requests", type=int, default=300, help="requests in plain Python; 0: no such run")
    parser.add_argument("--only-seconds", action="store_true", help="print CPU-seconds a request and nothing else")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one row a deployment."""
    options = parse(arguments)
    workload = read(options.trace, options.requests)
    deployments = options.deploy or DEPLOYMENTS
    if options.only_seconds:
        print(timed(lambda: run(workload, deployments[0], options), options.runs).best_s / len(workload))
        return
    print(f"{workload!r}, {options.model} on {options.device}, {options.runs} runs each")
    print_table(HEADER, [row(workload, deploy, options) for deploy in deployments])


if __name__ == "__main__":
    main()
