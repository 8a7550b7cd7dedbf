"""A device: what it multiplies, moves and holds, what it draws and what it costs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from twofold.errors import SpecError
from twofold.spec.checked import Bytes, BytesPerSecond, Checked, Watts
from twofold.spec.model import DTYPE_BYTES

UPCAST = {
    "fp16": ("bf16", "fp32"),
    "bf16": ("fp16", "fp32"),
    "fp8": ("bf16", "fp16", "fp32"),
    "int8": ("bf16", "fp16", "fp32"),
    "fp4": ("bf16", "fp16", "fp32"),
    "mxfp4": ("bf16", "fp16", "fp32"),
    "int4": ("bf16", "fp16", "fp32"),
}
"""Where a device lacks a dtype, numbers are widened before they are multiplied: the first of these it has."""

CORE_FLOPS, CPU_BANDWIDTH, CORE_TDP_W, CORE_IDLE_W = 60e9, 20e9, 10.0, 2.0
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")

Rate = Annotated[float, Field(gt=0)]


class Device(Checked):
    """One GPU, or one CPU machine.

    ``peak_flops``: FLOP/s by dtype, dense, as published; ``bandwidth`` of its memory in bytes a second;
    ``memory`` in bytes, where an "80 GB" part has 80e9; ``units``: SMs, CUs or cores; ``compute_capability``
    as CUDA names it, ``cpu`` for a machine divided by cores, None elsewhere; ``tdp_w`` and ``idle_w`` in
    watts; ``price_per_hour`` in USD for one device. ``intra_link`` joins the ``devices_per_node`` of a
    machine, ``inter_link`` the machines.
    """

    name: str
    source: str = "given by the user"
    vendor: str = ""
    peak_flops: dict[str, Rate]
    bandwidth: Annotated[BytesPerSecond, Field(gt=0)]
    memory: Annotated[Bytes, Field(gt=0)]
    units: Annotated[int, Field(ge=1)]
    compute_capability: Annotated[str, Field(pattern=r"^(\d+\.\d+|cpu)$")] | None = None
    tdp_w: Annotated[Watts, Field(gt=0)]
    idle_w: Annotated[Watts, Field(ge=0)]
    price_per_hour: Annotated[float, Field(ge=0)] = 0.0
    price_source: str = "none given"
    devices_per_node: Annotated[int, Field(ge=1)] = 8
    intra_link: str
    inter_link: str

    @model_validator(mode="after")
    def _agree(self) -> Device:
        unknown = [dtype for dtype in self.peak_flops if dtype not in DTYPE_BYTES]
        if unknown or not self.peak_flops:
            raise SpecError("peak_flops", unknown, f"accepted: one or more of {', '.join(DTYPE_BYTES)}")
        if self.idle_w >= self.tdp_w:
            raise SpecError("idle_w", self.idle_w, f"accepted: below tdp_w = {self.tdp_w:g} W")
        return self

    def flops(self, dtype: str) -> float:
        """Dense FLOP/s on numbers stored as ``dtype``, widened as ``UPCAST`` says where the device lacks it.

        So fp8 and 4-bit weights run at the bf16 rate on an A100. SpecError where no dtype fits.
        """
        for candidate in (dtype, *UPCAST.get(dtype, ())):
            if candidate in self.peak_flops:
                return self.peak_flops[candidate]
        accepted = f"accepted on {self.name}: {', '.join(self.peak_flops)} and what widens to them"
        raise SpecError("dtype", dtype, accepted)


def this_cpu() -> Device:
    """The machine that runs this: cores and memory as found, all rates defaults that nobody measured."""
    cores = _cores()
    rate = cores * CORE_FLOPS
    return Device(
        name="this-cpu",
        source=(
            "cores and memory found on this machine; 60 GFLOP/s a core, 20 GB/s, 10 W and idle 2 W a core"
            " are defaults, not measured: set your own"
        ),
        vendor="this machine",
        peak_flops={"fp32": rate, "bf16": rate, "fp16": rate, "int8": rate},
        bandwidth=CPU_BANDWIDTH,
        memory=_memory(),
        units=cores,
        compute_capability="cpu",
        tdp_w=cores * CORE_TDP_W,
        idle_w=cores * CORE_IDLE_W,
        price_source="none: a machine of your own has no hourly price until you set one",
        devices_per_node=1,
        intra_link="memory",
        inter_link="loopback",
    )


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory() -> int:
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        raise SpecError("memory", None, "this system does not tell it: give memory inline") from None
    limit = CGROUP_LIMIT.read_text().strip() if CGROUP_LIMIT.is_file() else "max"
    return min(memory, int(limit)) if limit.isdigit() else memory
