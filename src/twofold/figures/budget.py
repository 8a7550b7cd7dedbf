"""Lecture 7, section 2.5 and exercise 3: the token budget of a chunked replica."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.figures.row import Comparison, sampled
from twofold.simulate.run import simulate
from twofold.spec.notation import parse_deployment
from twofold.spec.synthetic import Synthetic

Floats = NDArray[np.float64]

RATE, REQUESTS = 30.0, 600
PROMPT, OUTPUT = "lognormal:755:0.6", "lognormal:200:0.8"
SEEDS = range(10)
INPUTS = (
    f"prompts {PROMPT}, outputs {OUTPUT}, Poisson, at most 256 requests a batch (only the means and the rate "
    f"given); mean of seeds 0 to {SEEDS[-1]}"
)


def summaries(policy: str) -> list[Mapping[str, Any]]:
    """Summaries of the sweep's workload under ``policy``, one a seed."""
    deployment = parse_deployment(f"1B,{policy}", model="llama-3-8b", device="H100")
    drawn = [Synthetic(rate=RATE, requests=REQUESTS, prompt=PROMPT, output=OUTPUT, seed=seed) for seed in SEEDS]
    return [simulate(synthetic.workload(), deployment).summary() for synthetic in drawn]


def sweep() -> Iterator[Comparison]:
    """Prefill-first, budget 512 and budget 128 at 30 req/s."""
    for policy, ttft, tbt, makespan in (("prefill-first", 161, 130, 29.43), ("chunked=512", 178, 12, 26.59)):
        found = summaries(policy)
        name = policy.replace("=", "-")
        yield _compared(f"{name}.ttft-p99", f"{policy}: TTFT P99", ttft, _all(found, "ttft_s", "p99"))
        yield _compared(f"{name}.tbt-p99", f"{policy}: TBT P99", tbt, _all(found, "tbt_s", "p99"))
        seconds = np.array([summary["duration_s"] for summary in found])
        yield _compared(f"{name}.makespan", f"{policy}: makespan", makespan, seconds, "s")
    medians = _all(summaries("chunked=128"), "ttft_s", "p50") / 1e3
    yield _compared("chunked-128.ttft-p50", "chunked=128: TTFT median", 6, medians, "s")


def _all(found: list[Mapping[str, Any]], metric: str, statistic: str) -> Floats:
    return 1e3 * np.array([summary[metric][statistic] for summary in found])


def _compared(part: str, what: str, chapter: float, values: Floats, unit: str = "ms") -> Comparison:
    return sampled(part, what, chapter, values.tolist(), unit, 0 if unit == "ms" else 2, INPUTS)
