"""Lecture 7, section 1.3: a long prompt arrives while others decode."""

from collections.abc import Iterator

import numpy as np

from twofold.figures.row import MODEL_TOLERANCE, Comparison
from twofold.simulate.result import Result
from twofold.simulate.run import simulate
from twofold.spec.notation import parse_deployment
from twofold.spec.workload import Workload

DECODES, PROMPT, OUTPUT = 32, 256, 400
LONG_PROMPT, LONG_OUTPUT, ARRIVES_S = 4096, 100, 0.5
INPUTS = (
    f"{DECODES} requests of {PROMPT} + {OUTPUT} tokens at 0 s, one of {LONG_PROMPT} + {LONG_OUTPUT} "
    f"at {ARRIVES_S} s (only 32, 4096 and 0.5 s given)"
)


def requests(with_prompt: bool) -> Workload:
    """The decoding requests and, where asked, the long prompt."""
    count = DECODES + int(with_prompt)
    arrivals, prompts, outputs = np.zeros(count), np.full(count, PROMPT), np.full(count, OUTPUT)
    if with_prompt:
        arrivals[-1], prompts[-1], outputs[-1] = ARRIVES_S, LONG_PROMPT, LONG_OUTPUT
    return Workload("stall", arrivals, prompts.astype(np.int32), outputs.astype(np.int32))


def stalled(policy: str, with_prompt: bool = True) -> Result:
    """One replica of Llama-3-8B on H100 under ``policy``."""
    return simulate(requests(with_prompt), parse_deployment(f"1B,{policy}", model="llama-3-8b", device="H100"))


def generation_stall() -> Iterator[Comparison]:
    """The longest gap, and the median with and without the long prompt."""
    for policy in ("prefill-first", "mixed"):
        gaps = stalled(policy).summary()["tbt_s"]
        longest, median = 1e3 * gaps["max"], 1e3 * gaps["p50"]
        what = f"{policy}: longest gap while 32 decode"
        yield Comparison(f"{policy}-longest", what, "over 90 ms", f"{longest:.1f} ms", None, longest > 90, INPUTS)
        before = 1e3 * stalled(policy, with_prompt=False).summary()["tbt_s"]["p50"]
        change = median / before - 1
        what = f"{policy}: median gap with the prompt, {before:.2f} ms without"
        unchanged = abs(change) <= MODEL_TOLERANCE
        yield Comparison(f"{policy}-median", what, "nearly unchanged", f"{median:.2f} ms", change, unchanged, INPUTS)
