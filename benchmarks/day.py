"""A day of a large fleet: wall time, CPU time and peak memory of simulating it with all metrics on."""

import argparse
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import twofold
from benchmarks.measure import peak_gib, print_table, verdict

T = TypeVar("T")
DAY_S = 86_400.0
SLO = "ttft<=0.5s, tpot<=20ms @90%"
GOAL_S, GOAL_GIB = 120.0, 4.0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.day", description=__doc__)
    parser.add_argument("--requests", type=int, default=5_000_000, help="Poisson arrivals over a day")
    parser.add_argument("--prompt", default="lognormal:1155:1.0")
    parser.add_argument("--output", default="lognormal:211:0.7")
    parser.add_argument("--deploy", default="1000B,chunked=512")
    parser.add_argument("--router", default="round-robin")
    parser.add_argument("--model", default="llama-3-8b")
    parser.add_argument("--device", default="H100")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(arguments)


class Steps:
    """Rows of the table, one a step of the work."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = []
        self.wall_s = self.cpu_s = 0.0

    def do(self, name: str, call: Callable[[], T]) -> T:
        """Do one step and note what it took."""
        wall, cpu = time.perf_counter(), time.process_time()
        made = call()
        self._note(name, time.perf_counter() - wall, time.process_time() - cpu)
        return made

    def _note(self, name: str, wall_s: float, cpu_s: float) -> None:
        self.wall_s, self.cpu_s = self.wall_s + wall_s, self.cpu_s + cpu_s
        self.rows.append([name, f"{wall_s:.1f}", f"{cpu_s:.1f}", f"{peak_gib():.2f}"])

    def total(self) -> list[str]:
        """The sum of all steps."""
        return ["all", f"{self.wall_s:.1f}", f"{self.cpu_s:.1f}", f"{peak_gib():.2f}"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw a day of requests, simulate it, sum it up."""
    options = parse(arguments)
    made_up = twofold.Synthetic(
        rate=options.requests / DAY_S,
        requests=options.requests,
        prompt=options.prompt,
        output=options.output,
        seed=options.seed,
    )
    deployment = twofold.deployment(options.deploy, model=options.model, device=options.device, router=options.router)
    twofold.simulate(twofold.read_workload("sample").head(50), deployment, SLO).summary()
    steps = Steps()
    workload = steps.do("draw the requests", made_up.workload)
    result = steps.do("simulate", lambda: twofold.simulate(workload, deployment, SLO))
    summary = steps.do("sum up", result.summary)
    print(f"{options.deploy}, {options.router}, {options.model} on {options.device}, {options.requests:,} requests")
    print(f"{summary['steps']:,} steps, {summary['completed']:,} completed, attainment {summary['attainment']:.4f}\n")
    print_table(("", "wall s", "CPU s", "peak GiB so far"), [*steps.rows, steps.total()])
    print(
        f"\ngoal {GOAL_S:.0f} s: {verdict(steps.wall_s < GOAL_S)}; {GOAL_GIB:.0f} GiB: {verdict(peak_gib() < GOAL_GIB)}"
    )


if __name__ == "__main__":
    main()
