"""Make the sample trace that ships with Twofold: two minutes of an invented chat service.

Three in four requests are chat turns, the others ask about a long document. Poisson arrivals at 14
requests/s rise to 20 for the middle 40 seconds. All numbers are made up; nothing is taken from a real
service.

    python examples/make_sample.py sample.csv
"""

import sys
from pathlib import Path

import numpy as np

from twofold.spec.arrivals import Arrivals
from twofold.spec.lengths import Lengths

REQUESTS = 1920
DOCUMENT_SHARE = 0.25
CHAT = Lengths.parse("lognormal:700:0.9"), Lengths.parse("lognormal:220:0.7")
DOCUMENT = Lengths.parse("lognormal:2600:0.5"), Lengths.parse("lognormal:90:0.6")
# Together they stay within the 8,192-token context of small models.
LONGEST_PROMPT, LONGEST_OUTPUT = 7168, 1024


def sample_text(seed: int = 2024) -> str:
    """The whole CSV file; the same text for the same seed."""
    rng = np.random.Generator(np.random.PCG64(seed))
    times = Arrivals.parse("piecewise:0=14,40=20,80=14").generate(rng, None, REQUESTS)
    document = rng.random(REQUESTS) < DOCUMENT_SHARE
    lengths = [
        np.where(document, long.sample(rng, REQUESTS), short.sample(rng, REQUESTS))
        for short, long in zip(CHAT, DOCUMENT, strict=True)
    ]
    prompts, outputs = np.minimum(lengths[0], LONGEST_PROMPT), np.minimum(lengths[1], LONGEST_OUTPUT)
    rows = [f"{time:.3f},{prompt},{output}" for time, prompt, output in zip(times, prompts, outputs, strict=True)]
    return "\n".join(["arrival_s,prompt_tokens,output_tokens", *rows, ""])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(sample_text(), encoding="utf-8")
