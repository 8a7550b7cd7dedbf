"""Compiling loops over float32, and the exponential in them."""

import hashlib
from pathlib import Path
from typing import Any

import numba
import numpy as np

from twofold import compiled

LOG2_E = np.float32(1.4426950408889634)
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
LEAST, MOST = np.float32(-87.0), np.float32(88.0)


FILES = ("blocked", "causal", "fast", "heads", "meet", "paged", "pointwise", "prefetch", "tiles", "walk")
"""The files of this folder that are compiled together: machine code is kept under the hash of all of them."""


def _folder() -> Path:
    digest = hashlib.sha256()
    for name in FILES:
        digest.update((Path(__file__).parent / f"{name}.py").read_bytes())
    return compiled.CACHE / f"engine-{digest.hexdigest()[:16]}"


FOLDER = _folder()
LOOSE = {"nnan", "ninf", "nsz", "contract", "reassoc", "afn"}
"""All that "fast math" allows but the estimate of a reciprocal, which only vector code would take.

A loop is compiled for vectors and for one number at a time, and where its arrays lie decides which of the two runs; a
number must be the same in both.
"""


def fast(function: Any) -> Any:
    """Compile with sums in any order, which lets a dot product use the whole width of a vector register."""
    wrap = numba.njit(cache=True, nogil=True, fastmath=LOOSE, error_model="numpy")
    return compiled.in_cache(wrap, function, FOLDER)


def inlined(function: Any) -> Any:
    """Compile into each caller, so that its loop is still one for vector registers."""
    return numba.njit(nogil=True, fastmath=LOOSE, error_model="numpy", inline="always")(function)


@inlined
def exponential(x: np.float32) -> np.float32:
    """E to the power of x, which is held between -87 and 88.

    e^x = 2^n e^r with r = x - n ln 2 in [-0.35, 0.35], e^r by its series to the sixth power: relative error below
    4e-6, which is what rounding x to float32 costs.
    """
    x = min(max(x, LEAST), MOST)
    n = np.floor(x * LOG2_E + np.float32(0.5))
    r = x - n * LN2_HIGH - n * LN2_LOW
    series = np.float32(1 / 720) * r + np.float32(1 / 120)
    series = (series * r + np.float32(1 / 24)) * r + np.float32(1 / 6)
    series = ((series * r + np.float32(0.5)) * r + np.float32(1.0)) * r + np.float32(1.0)
    power: np.float32 = series * np.int32((np.int32(n) + 127) << 23).view(np.float32)
    return power
