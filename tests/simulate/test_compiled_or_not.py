"""The compiled loop and the same code as plain Python give the same bits."""

import os
import subprocess
import sys
from pathlib import Path

from harness import digest, draw, run

DEPLOYMENTS = (
    "1B,chunked=256,memory=0.21",
    "1B,chunked=25ms,memory=0.21",
    "1B,prefill-first,memory=0.21,host=1GB",
    "1B,mixed,memory=0.204",
    "1B,request-level,memory=0.21",
    "1B,multiplexed,memory=0.21",
    "1B,multiplexed=slo,curve=measured,memory=0.21",
    "1B,tp2,pp2,memory=0.06",
    "2B,order=short-first,memory=0.21",
    "1P1D,memory=0.21",
    "2P,pp2,memory=0.11 + 1D,tp2,memory=0.11",
)
OPTIONS = (
    {},
    {"layerwise": True},
    {"transfer": "push", "mixed_pool": True, "mixed_prompt_tokens": 500},
    {"faults": [{"target": 0, "at_s": 0.4, "for_s": 0.3}], "router": "kv-aware"},
)


def all_digests() -> list[str]:
    plain, shared = (
        draw(12, seed=3, output="lognormal:20:0.8"),
        draw(12, seed=4, shared_prefix={"pool": 2, "tokens": 256}),
    )
    found = []
    for text in DEPLOYMENTS:
        for options in OPTIONS if "P" in text else OPTIONS[-1:]:
            if not ("pp2" in text and options.get("layerwise")):
                found += [f"{text} {options} {digest(run(text, w, **options))}" for w in (plain, shared)]
    return found


def test_plain_python_gives_the_same_bits():
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(Path(__file__).parent)}
    program = "import test_compiled_or_not as t; print('\\n'.join(t.all_digests()))"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == all_digests()
