"""What a process needs in its environment, before it starts, to run the engine well on a CPU.

Measured with SmolLM2-135M in fp32 on two cores: with huge pages a decode step takes 24 ms instead of 30, a prompt of
99 tokens 190 ms instead of 220, and the same prompt after a second of idleness 240 ms instead of 370. Products keep
what they have prepared for each number of rows, megabytes a number: 180 lengths of prompts took 480 MB of memory and
more would have taken more; with 64 kept they take 120 MB, and the same CPU time.
"""

from collections.abc import Mapping

ENVIRONMENT = {
    "OMP_WAIT_POLICY": "PASSIVE",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    "LRU_CACHE_CAPACITY": "64",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64",
}
"""Idle threads sleep, as whoever feeds the engine needs a core too; weights and KV lie in huge pages; torch and oneDNN
keep 64 products prepared, not 1,024.
"""


def surrounded(environment: Mapping[str, str]) -> dict[str, str]:
    """``environment`` with what is missing there; what the operator chose stays."""
    return ENVIRONMENT | dict(environment)
