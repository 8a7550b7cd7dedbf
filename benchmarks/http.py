"""The server around the engine: what HTTP adds to a TTFT, beside bare uvicorn, and how fast /health answers."""

import argparse
import contextlib
import statistics
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.http_load import (
    COMPLETIONS,
    HERE,
    Asked,
    Place,
    bare,
    connected,
    first_line_s,
    health_while,
    heavy,
    served,
    steadily,
    stream,
)
from benchmarks.measure import print_table, verdict

STEADY = (sys.executable, "-P", str(HERE / "instant_worker.py"))
ENGINE = (sys.executable, "-m", "twofold.serve.worker")
HEADER = ("measured", "n", "median ms", "P99 ms", "x bare", "HTTP CPU", "goal")
ADDED_GOAL_MS, HEALTH_GOAL_MS = 2.0, 50.0
STEP_S = "0.02"
BODIES, BODY_ROUNDS = 3, 20


def p99(times: list[float]) -> float:
    """The 99th percentile, seconds."""
    return statistics.quantiles(times, n=100, method="inclusive")[98] if len(times) > 1 else times[0]


def row(name: str, times: list[float], cpu: str, goal: str, base_s: float | None = None) -> list[str]:
    """A row of the table."""
    median = statistics.median(times)
    ratio = "" if base_s is None else f"{median / base_s:.1f}"
    return [name, str(len(times)), f"{median * 1e3:.2f}", f"{p99(times) * 1e3:.2f}", ratio, cpu, goal]


def asked_for(characters: int) -> dict[str, Any]:
    """A request for one token."""
    return {"prompt": "a word " * max(characters // 7, 1), "max_tokens": 1, "stream": True}


def parts(place: Place, nothing: Place, rate: float, requests: int, rounds: int) -> list[list[str]]:
    """What the parts of a TTFT take at one rate, each in turn with the others; the worker takes no time."""
    kinds: dict[str, tuple[Place, str, dict[str, Any] | None]] = {
        "bare uvicorn, one event": (nothing, "/", asked_for(7)),
        "GET /health": (place, "/health", None),
        "/tokenize, 7 characters": (place, "/tokenize", {"prompt": "a word "}),
        "TTFT, 7 characters": (place, COMPLETIONS, asked_for(7)),
        "TTFT, 1,000 characters": (place, COMPLETIONS, asked_for(1000)),
    }
    times: dict[str, list[float]] = {name: [] for name in kinds}
    spent = dict.fromkeys(kinds, 0.0)
    for _ in range(rounds):
        for name, (where, path, body) in kinds.items():
            before = where.cpu_s() or 0.0
            times[name] += steadily(where, path, body, rate, requests // rounds)
            spent[name] += (where.cpu_s() or 0.0) - before
    base = statistics.median(next(iter(times.values())))
    rows = []
    for name, each in times.items():
        goal = verdict(statistics.median(each) * 1e3 < ADDED_GOAL_MS) if name.startswith("TTFT") else ""
        cpu = f"{spent[name] / len(each) * 1e3:.2f} ms" if spent[name] else ""
        rows.append(row(f"{rate:g}/s: {name}", each, cpu, f"{ADDED_GOAL_MS:.0f} {goal}" if goal else "", base))
    return rows


def health_row(name: str, times: list[float], cpu: str = "") -> list[str]:
    """A row whose P99 has the goal of /health."""
    return row(f"/health {name}", times, cpu, f"{HEALTH_GOAL_MS:.0f} {verdict(p99(times) * 1e3 < HEALTH_GOAL_MS)}")


def under_streams(place: Place, streams: int, tokens: int) -> list[str]:
    """/health while streams run, and what a token of them costs the HTTP process."""
    body = {"prompt": "a word ", "max_tokens": tokens}
    stream(place, body)
    before = place.cpu_s() or 0.0
    times = health_while(place, [Asked(stream, place, body) for _ in range(streams)])
    spent = (place.cpu_s() or 0.0) - before
    cpu = f"{spent / streams / tokens * 1e6:.0f} us a token" if spent else ""
    return health_row(f"under {streams} streams", times, cpu)


def under_bodies(place: Place) -> list[str]:
    """/health while bodies of some MB, full of lists, come."""
    times: list[float] = []
    for _ in range(BODY_ROUNDS):
        times += health_while(place, [Asked(heavy, place) for _ in range(BODIES)])
    return health_row(f"under {BODIES} bodies of 800,000 lists", times)


def under_prompt(place: Place, prompt_tokens: int) -> list[str]:
    """/health while a real prompt is computed."""
    body = {"prompt": list(range(100, 100 + prompt_tokens)), "max_tokens": 1, "stream": True}
    first_line_s(connected(place), COMPLETIONS, body | {"prompt": [100]})
    return health_row("while a prompt is computed", health_while(place, [Asked(stream, place, body)]))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one row a measurement."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.http", description=__doc__)
    parser.add_argument("tokenizer", help="a folder with a tokenizer.json, for the worker without a model")
    parser.add_argument("--model", default="smollm2", help="what computes the long prompt")
    parser.add_argument("--rates", type=float, nargs="+", default=[10.0, 200.0], help="requests a second")
    parser.add_argument("--requests", type=int, default=120, help="of each kind at each rate")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=100, help="of each stream")
    parser.add_argument("--prompt-tokens", type=int, default=2000)
    options = parser.parse_args(arguments)
    rows = []
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(served(options.tokenizer, (*STEADY, "0")))
        nothing = stack.enter_context(bare())
        for rate in options.rates:
            rows += parts(place, nothing, rate, options.requests, options.rounds)
        rows.append(under_bodies(place))
    with served(options.tokenizer, (*STEADY, STEP_S)) as place:
        rows.append(under_streams(place, options.streams, options.tokens))
    with served(options.model, ENGINE) as place:
        rows.append(under_prompt(place, options.prompt_tokens))
    print_table(HEADER, rows)


if __name__ == "__main__":
    main()
