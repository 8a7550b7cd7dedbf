"""Names of content: a keyed 64-bit hash of all tokens of a request up to the end of each full piece.

HalfSipHash-2-4 (Aumasson and Bernstein, SipHash: a fast short-input PRF) on tokens as 32-bit words. It is kept going
as tokens come, so a piece costs its own tokens only, and without the key nobody can make two texts with one name.
Words are held in int64, where no step can overflow.
"""

import numpy as np

from twofold.compiled import compiled
from twofold.scheduler.state import Scheduler

WORD = 0xFFFFFFFF
LARGEST = (1 << 63) - 1
Words = tuple[int, int, int, int]


@compiled
def _rotate(x: int, bits: int) -> int:
    return ((x << bits) | (x >> (32 - bits))) & WORD


@compiled
def _round(v: Words) -> Words:
    v0, v1, v2, v3 = v
    v0 = (v0 + v1) & WORD
    v1 = _rotate(v1, 5) ^ v0
    v0 = _rotate(v0, 16)
    v2 = (v2 + v3) & WORD
    v3 = _rotate(v3, 8) ^ v2
    v0 = (v0 + v3) & WORD
    v3 = _rotate(v3, 7) ^ v0
    v2 = (v2 + v1) & WORD
    v1 = _rotate(v1, 13) ^ v2
    return v0, v1, _rotate(v2, 16), v3


@compiled
def _absorb(v: Words, word: int) -> Words:
    v = _round(_round((v[0], v[1], v[2], v[3] ^ word)))
    return v[0] ^ word, v[1], v[2], v[3]


@compiled
def _four_rounds(v: Words) -> Words:
    return _round(_round(_round(_round(v))))


@compiled
def begin(key: np.ndarray) -> Words:
    """State before the first token, under a key of two 32-bit words."""
    low, high = int(key[0]), int(key[1])
    return low, high ^ 0xEE, 0x6C796765 ^ low, 0x74656462 ^ high


@compiled
def digest(v: Words, tokens: int) -> tuple[int, int]:
    """Low and high 32 bits of the hash, once ``tokens`` tokens have been absorbed."""
    v = _absorb(v, (tokens << 26) & WORD)
    v = _four_rounds((v[0], v[1], v[2] ^ 0xEE, v[3]))
    low = v[1] ^ v[3]
    v = _four_rounds((v[0], v[1] ^ 0xDD, v[2], v[3]))
    return low, v[1] ^ v[3]


@compiled
def _name(v: Words, tokens: int, piece: int) -> int:
    low, high = digest(v, tokens)
    return (((high & 0x7FFFFFFF) << 32) | low) % (LARGEST // piece - 1) + 1


@compiled
def name_pieces(s: Scheduler, r: int, slot: int, tokens: np.ndarray, known: int, chains: np.ndarray) -> int:
    """Append to the hashes of ``slot`` one for each piece that its first ``known`` tokens fill; returns how many.

    ``tokens`` int32[slots, context]; ``chains`` int64[slots, 4] has the state at the end of the last named piece.
    """
    request, piece = s.requests[slot], s.replicas[r].hash_tokens
    if piece == 0:
        return 0
    before = request.hash_count
    chain = chains[slot]
    v = (int(chain[0]), int(chain[1]), int(chain[2]), int(chain[3]))
    while (request.hash_count + 1) * piece <= known:
        start = request.hash_count * piece
        for i in range(start, start + piece):
            v = _absorb(v, int(tokens[slot, i]))
        s.hashes[request.hashes + request.hash_count] = _name(v, start + piece, piece)
        request.hash_count += 1
    chain[0], chain[1], chain[2], chain[3] = v
    return int(request.hash_count - before)
