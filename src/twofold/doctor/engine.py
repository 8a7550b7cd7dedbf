"""What the engine can do here: torch, lanes on cores, CUDA devices and their green contexts."""

import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

from twofold.doctor.finding import Finding, State
from twofold.doctor.probe import ProbeError
from twofold.engine.on_cuda import UNVERIFIED, has_flashinfer

Probe = Callable[[str], dict[str, Any]]
BINDING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
INSTALL = 'simulate and plan need none; to serve: pip install "twofold[serve]"'
LANES_UNSAFE = "serve any policy but multiplexed"


def engine(probe: Probe) -> Iterator[Finding]:
    """Torch and what needs it; without torch one line says so."""
    if find_spec("torch") is None:
        yield Finding("torch", "missing", "not installed", INSTALL)
        return
    try:
        facts = probe("torch")
    except ProbeError as error:
        yield Finding("torch", "broken", f"it does not run: {error}", "reinstall it, or uninstall it to simulate only")
        return
    yield torch(facts)
    yield lanes(probe)
    yield from cuda(probe, facts["cuda"])


def torch(facts: dict[str, Any]) -> Finding:
    """What torch multiplies with, and on how many threads."""
    libraries = [name for name, key in (("MKL", "mkl"), ("oneDNN", "onednn"), ("OpenMP", "openmp")) if facts[key]]
    found = f"{facts['version']}, {facts['threads']} threads, {', '.join(libraries)}, kernels for {facts['capability']}"
    if not facts["openmp"]:
        return Finding("torch", "limited", found, "without OpenMP lanes share one pool of threads")
    return Finding("torch", "ok", found)


def lanes(probe: Probe) -> Finding:
    """Whether two lanes keep to cores of their own and end."""
    if not hasattr(os, "sched_getaffinity"):
        return Finding("lanes", "missing", "this system does not pin threads to cores", LANES_UNSAFE)
    bound = [name for name in BINDING if os.environ.get(name)]
    if bound:
        return Finding(
            "lanes", "limited", f"{', '.join(bound)} is set", "unset it: it puts both lanes on the same cores"
        )
    if len(os.sched_getaffinity(0)) < 2:
        return Finding("lanes", "missing", "this process may use one core only", LANES_UNSAFE)
    try:
        tried = probe("lanes")
    except ProbeError as error:
        return Finding("lanes", "limited", str(error), LANES_UNSAFE)
    placed = " and ".join(",".join(map(str, cores)) for cores in tried["cores"])
    if not tried["disjoint"]:
        return Finding("lanes", "limited", f"both ran on cores {placed}", LANES_UNSAFE)
    return Finding("lanes", "ok", f"cores {placed} at once, {tried['seconds'] * 1e3:.0f} ms")


def cuda(probe: Probe, built_for: str | None) -> Iterator[Finding]:
    """CUDA devices, and whether their SMs can be divided."""
    if built_for is None:
        yield Finding(
            "CUDA", "missing", "this torch is built without it", "with a GPU: https://pytorch.org/get-started"
        )
        return
    try:
        devices = probe("cuda")["devices"]
    except ProbeError as error:
        yield Finding("CUDA", "limited", str(error), "serve --device cpu")
        return
    if not devices:
        yield Finding("CUDA", "missing", f"torch is built for {built_for}, no device answers", "check the driver")
        return
    shown = [f"{each['name']}, {each['memory'] / 1e9:.0f} GB, {each['sms']} SMs" for each in devices]
    yield Finding("CUDA", "ok", f"{'; '.join(shown)}; {UNVERIFIED}")
    yield attention()
    yield green_contexts(probe)


def attention() -> Finding:
    """What computes attention on a CUDA device."""
    if has_flashinfer():
        return Finding("attention", "ok", "FlashInfer for models in bf16, torch for those in fp32")
    found = "torch over gathered blocks, without CUDA graphs"
    return Finding("attention", "limited", found, 'for models in bf16: pip install "twofold[flashinfer]"')


def green_contexts(probe: Probe) -> Finding:
    """How many SMs two lanes really get."""
    try:
        tried = probe("green-contexts")
    except ProbeError as error:
        advice = f"they need the package cuda-core 1.0 and CUDA 12.4; {LANES_UNSAFE}"
        return Finding("green contexts", "missing", str(error), advice)
    asked, realised = (" + ".join(map(str, tried[key])) for key in ("asked", "realised"))
    state: State = "ok" if tried["asked"] == tried["realised"] else "limited"
    return Finding("green contexts", state, f"{asked} SMs asked for, {realised} realised")
