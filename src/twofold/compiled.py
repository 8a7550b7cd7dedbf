"""The decorator of every compiled function: Numba, cached on disk, plain Python under NUMBA_DISABLE_JIT=1.

Numba keys its cache on the file that holds a function, so a changed callee in another file would go unnoticed.
The cache therefore lies in a folder named by the content of every compiled source file.
"""

import atexit
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba import types

from twofold.cached import kept_in, tell_unkept

P = ParamSpec("P")
R = TypeVar("R")

FLOORS = ("cost", "scheduler", "simulate")
KEPT_VERSIONS = 3


def fingerprint() -> str:
    """Hash of the sources that are compiled together."""
    digest = hashlib.sha256()
    root = Path(__file__).parent
    for floor in FLOORS:
        for path in sorted((root / floor).glob("*.py")):
            digest.update(path.name.encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def cache_root() -> Path:
    """Folder of all compile caches: ``TWOFOLD_CACHE_DIR``, else the user's cache folder."""
    chosen = os.environ.get("TWOFOLD_CACHE_DIR")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "twofold"


def _open_cache() -> Path:
    folder = cache_root() / "compiled" / fingerprint()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        tell_unkept(cache_root(), error)
        return _passing()
    for stale in sorted(folder.parent.iterdir(), key=_last_used)[:-KEPT_VERSIONS]:
        shutil.rmtree(stale, ignore_errors=True)
    return folder


def _passing() -> Path:
    """A folder that goes with this process."""
    folder = Path(tempfile.mkdtemp(prefix="twofold-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _last_used(version: Path) -> float:
    """Seconds since 1970; 0 where another process has just swept it."""
    try:
        return version.stat().st_mtime
    except OSError:
        return 0.0


CACHE = _open_cache()


def is_cached(name: str) -> bool:
    """Whether the function ``MODULE.FUNCTION``, such as ``loop.run_events``, runs without being compiled first."""
    return bool(numba.config.DISABLE_JIT) or any(CACHE.glob(f"*/{name}-*.nbi"))


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` on first call and keep the machine code for the next process.

    It is compiled once for all whole numbers (as int64) and for all constants, not once for each width and value.
    """
    wrap = numba.njit(cache=True, error_model="numpy", nogil=True, no_cfunc_wrapper=True)
    return cast("Callable[P, R]", _widening(in_cache(wrap, function)))


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` into each caller: for small ones that are handed arrays, which a call would count."""
    return cast("Callable[P, R]", numba.njit(inline="always", error_model="numpy")(function))


def compiled_as(signature: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile for exactly ``signature`` (needed where an argument is itself a compiled function)."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        wrap = numba.njit(signature, cache=True, error_model="numpy", nogil=True)
        return cast("Callable[P, R]", in_cache(wrap, function))

    return decorate


def _widening(dispatcher: Any) -> Any:
    if numba.config.DISABLE_JIT:
        return dispatcher
    compile_for = dispatcher.compile
    dispatcher.compile = lambda arguments: compile_for(tuple(map(_widest, arguments)))
    return dispatcher


def _widest(kind: Any) -> Any:
    kind = types.unliteral(kind)
    return types.int64 if isinstance(kind, types.Integer) else kind


def in_cache(wrap: Any, function: Any, folder: Path | None = None) -> Any:
    """``function`` compiled by the decorator ``wrap``, with its machine code kept in ``folder``, or ours."""
    with kept_in(folder or CACHE):
        return wrap(function)
