"""Cores, memory and vector instructions of this machine, as this process may use them."""

import os
import platform
from pathlib import Path

from twofold.doctor.finding import Finding

CGROUP, CPUINFO, MEMINFO = Path("/sys/fs/cgroup"), Path("/proc/cpuinfo"), Path("/proc/meminfo")
VECTORS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "asimd", "sve")
ENOUGH_BYTES = 2 << 30
LEAST_BYTES = 1 << 29


def cores(cgroup: Path = CGROUP) -> Finding:
    """The cores of the machine, those of this process, and how much of their time a container leaves."""
    whole = os.cpu_count() or 1
    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else whole
    quota = _quota(cgroup)
    found = f"{mine} of {whole} may be used, " + ("no quota" if quota is None else f"a quota of {quota:g} cores")
    if quota is not None and quota < mine:
        advice = f"threads beyond the quota are stopped in the middle of a step: --threads {max(1, int(quota))}"
        return Finding("cores", "limited", found, advice)
    if mine < 2:
        return Finding("cores", "limited", found, "multiplexing needs two cores: any other policy works")
    return Finding("cores", "ok", found)


def _quota(cgroup: Path) -> float | None:
    """Cores whose time a container may use; None without a limit."""
    file = cgroup / "cpu.max"
    try:
        allowed, period = file.read_text().split()[:2]
        return None if allowed == "max" else int(allowed) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


def memory(cgroup: Path = CGROUP, meminfo: Path = MEMINFO) -> Finding:
    """Memory of the machine and what is free, within the limit of a container."""
    sizes = _meminfo(meminfo)
    if "MemTotal" not in sizes or "MemAvailable" not in sizes:
        return Finding("memory", "limited", "this system does not tell it", "say how much KV may take: serve --memory")
    free, limit = sizes["MemAvailable"], _limit(cgroup)
    found = f"{sizes['MemTotal'] / 1e9:.1f} GB, "
    if limit is not None:
        most, used = limit
        free = min(free, max(0, most - used))
        found += f"a limit of {most / 1e9:.1f} GB, "
    found += f"{free / 1e9:.1f} GB free"
    if free < LEAST_BYTES:
        return Finding("memory", "limited", found, "too little for a model; simulate and plan small workloads")
    if free < ENOUGH_BYTES:
        return Finding("memory", "limited", found, "enough for the embedded model with a small KV pool: serve --memory")
    return Finding("memory", "ok", found)


def _meminfo(file: Path) -> dict[str, int]:
    try:
        rows = [line.split() for line in file.read_text().splitlines()]
        return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) > 1}
    except (OSError, ValueError):
        return {}


def _limit(cgroup: Path) -> tuple[int, int] | None:
    """Bytes of the limit of a container, and of those in use; None without one."""
    try:
        return int((cgroup / "memory.max").read_text()), int((cgroup / "memory.current").read_text())
    except (OSError, ValueError):
        return None


def vectors(cpuinfo: Path = CPUINFO) -> Finding:
    """The vector instructions that kernels can use."""
    try:
        lines = [line for line in cpuinfo.read_text().splitlines() if line.startswith(("flags", "Features"))]
    except OSError:
        lines = []
    if not lines:
        return Finding("vectors", "limited", f"{platform.machine()}: this system does not tell them")
    flags = set(lines[0].partition(":")[2].split())
    have = [name for name in VECTORS if name in flags]
    if not have:
        return Finding("vectors", "limited", f"{platform.machine()}: none of {', '.join(VECTORS)}", "models run slowly")
    bf16 = {"avx512_bf16", "amx_bf16"} & flags
    advice = "" if bf16 else "no bf16 instructions: fp32 or --quantize int8 are faster than bf16"
    return Finding("vectors", "ok", f"{platform.machine()}: {', '.join(have)}", advice)
