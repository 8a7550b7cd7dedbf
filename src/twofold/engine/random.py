"""Random numbers that are a function of a seed and a position, whoever else is in the batch.

The generator is Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC 2011): ten rounds scramble a counter under a key, with no state that an order of calls could change.
"""

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
"""Whole numbers below 2^32, kept in 64 bits so that a product of two does not overflow."""

LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
WEYL = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
ROUNDS = 10
KEPT_BITS = 26


def philox(counter: tuple[Words, Words, Words, Words], key: tuple[Words, Words]) -> tuple[Words, Words, Words, Words]:
    """Four random words for each counter (four words) under its key (two words); all arrays of one shape."""
    a, b, c, d = counter
    k, m = key
    for _ in range(ROUNDS):
        first, second = MULTIPLIERS[0] * a, MULTIPLIERS[1] * c
        a, b, c, d = (second >> HALF) ^ b ^ k, second & LOW, (first >> HALF) ^ d ^ m, first & LOW
        k, m = (k + WEYL[0]) & LOW, (m + WEYL[1]) & LOW
    return a, b, c, d


def uniform(seeds: NDArray[np.uint64], positions: NDArray[np.int64]) -> NDArray[np.float64]:
    """One number in [0, 1) for each (seed, position), uniform on the multiples of 2^-52."""
    counter = positions.astype(np.uint64)
    zero = np.zeros_like(counter)
    high, low, _, _ = philox((counter & LOW, counter >> HALF, zero, zero), (seeds & LOW, seeds >> HALF))
    unused = np.uint64(32 - KEPT_BITS)
    bits = ((high >> unused) << np.uint64(KEPT_BITS)) | (low >> unused)
    return bits * 2.0 ** (-2 * KEPT_BITS)
