"""How much memory a worker may use for KV."""

import os
from pathlib import Path

from twofold.errors import SpecError

CPU_SHARE = 0.25
"""Of what is free on a machine that is also used for other things."""
MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


def free_memory(device: str, fraction: float) -> int:
    """Bytes for the KV pool: a quarter of what is free for ``cpu``, else ``fraction`` of what the device has free."""
    if device == "cpu":
        return int(min(_available(), _left_in_cgroup()) * CPU_SHARE)
    import torch

    free, _ = torch.cuda.mem_get_info(device)
    return int(free * fraction)


def _available() -> int:
    if MEMINFO.is_file():
        for line in MEMINFO.read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "MemAvailable":
                return int(value.split()[0]) * 1024
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):
        raise SpecError("--memory", None, "this system does not tell its memory: say how much KV may take") from None


def _left_in_cgroup() -> float:
    """Bytes up to the limit of a container; infinite where there is none."""
    limit, used = CGROUP / "memory.max", CGROUP / "memory.current"
    text = limit.read_text().strip() if limit.is_file() and used.is_file() else "max"
    return max(int(text) - int(used.read_text()), 0) if text.isdigit() else float("inf")
