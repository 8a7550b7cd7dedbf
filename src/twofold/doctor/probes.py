"""What is found out in a process of its own: ``python -m twofold.doctor.probes NAME`` prints one JSON object.

Torch is imported here and nowhere else in the doctor.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

LANE_WORK, LANE_SIZE = 20, 384
SM_STEP = 8


def torch_facts() -> dict[str, Any]:
    """Version and threads of torch, the libraries that it multiplies with, and what it was built for."""
    import torch

    libraries = torch.__config__.parallel_info()
    torch.ones(LANE_SIZE, LANE_SIZE) @ torch.ones(LANE_SIZE, LANE_SIZE)
    return {
        "version": torch.__version__,
        "threads": torch.get_num_threads(),
        "openmp": "OpenMP" in libraries,
        "mkl": "Math Kernel Library" in libraries,
        "onednn": "MKL-DNN" in libraries,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "cuda": torch.version.cuda,
    }


def lanes() -> dict[str, Any]:
    """Two lanes on disjoint cores multiply at once, as those of a multiplexed replica; where each was pinned."""
    from twofold.engine.cores import Crews, own_cores

    cores = own_cores(len(os.sched_getaffinity(0)))
    half = len(cores) // 2
    crews = Crews(cores)
    first, last = crews.pair(len(cores) - half, half)
    began = time.perf_counter()
    running = [crew.submit(_lane_work) for crew in (first, last)]
    pinned = [run.result() for run in running]
    crews.close()
    return {"cores": pinned, "disjoint": not set(pinned[0]) & set(pinned[1]), "seconds": time.perf_counter() - began}


def _lane_work() -> list[int]:
    import torch

    matrix = torch.ones(LANE_SIZE, LANE_SIZE)
    for _ in range(LANE_WORK):
        matrix @ matrix
    return sorted(os.sched_getaffinity(0))


def cuda() -> dict[str, Any]:
    """The CUDA devices that torch sees."""
    import torch

    if not torch.cuda.is_available():
        return {"devices": [], "built_for": torch.version.cuda}
    found = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    devices = [
        {
            "name": each.name,
            "memory": each.total_memory,
            "sms": each.multi_processor_count,
            "capability": f"{each.major}.{each.minor}",
        }
        for each in found
    ]
    return {"devices": devices, "built_for": torch.version.cuda}


def green_contexts() -> dict[str, Any]:
    """Divide the SMs of the first CUDA device into two lanes: how many were asked for, and how many each has got."""
    import torch

    from twofold.engine.green import divided

    sms = torch.cuda.get_device_properties(0).multi_processor_count
    half = sms // 2 // SM_STEP * SM_STEP
    parts = divided(0, half, sms - half)
    realised = [part.sms for part in parts]
    for part in parts:
        part.close()
    return {"asked": [half, sms - half], "realised": realised}


PROBES: dict[str, Callable[[], dict[str, Any]]] = {
    "torch": torch_facts,
    "lanes": lanes,
    "cuda": cuda,
    "green-contexts": green_contexts,
}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(PROBES[sys.argv[1]]()) + "\n")
