"""How long one step takes on one pipeline stage, compiled: the contract that every cost model fills.

A step is summed up by what it reads and multiplies (``Load``); the time is a roofline over those sums, or, where the
record has pieces, a fit: piecewise linear in the tokens of prompts and in the decodes. A record with tables of
measurements is read by ``cost.measured_line``.
Source of the form: DistServe, appendix A; constants: the lecture's ``hw_model`` (0.70 of the peak FLOP rate,
0.80 of the bandwidth, 0.5 ms a step).
"""

import math
from typing import Any, NamedTuple

import numpy as np

from twofold.compiled import compiled, inlined
from twofold.cost.graphs import padded
from twofold.cost.measured_line import HINTS, measured_parts

PIECES = 32
DENSE, ROWS, CHUNKS, BATCHES, BESIDE, CONTEXTS, SPLITS, SIZES, WAKES = 176, 64, 40, 32, 16, 28, 16, 4, 8
"""The most points of each table of measurements."""

COST = np.dtype(
    [
        ("token_flops", "f8"),
        ("row_flops", "f8"),
        ("pair_flops", "f8"),
        ("weight_bytes", "f8"),
        ("row_bytes", "f8"),
        ("expert_bytes", "f8"),
        ("decode_pieces", "i8"),
        ("experts", "f8"),
        ("log_miss", "f8"),
        ("kv_bytes", "f8"),
        ("embedding_bytes", "f8"),
        ("flop_rate", "f8"),
        ("byte_rate", "f8"),
        ("overhead_s", "f8"),
        ("exchange_s", "f8"),
        ("exchange_token_s", "f8"),
        ("hop_s", "f8"),
        ("hop_token_s", "f8"),
        ("layers", "i8"),
        ("stages", "i8"),
        ("devices", "i8"),
        ("idle_w", "f8"),
        ("compute_w", "f8"),
        ("memory_w", "f8"),
        ("limit_w", "f8"),
        ("contention_decode", "f8"),
        ("contention_prefill", "f8"),
        ("prompt_pieces", "i8"),
        ("pair_s", "f8"),
        ("shared_s", "f8"),
        ("longest_share", "f8"),
        ("graph_tokens", "i8"),
        ("prompt_from", "f8", (PIECES,)),
        ("prompt_base_s", "f8", (PIECES,)),
        ("prompt_token_s", "f8", (PIECES,)),
        ("decode_from", "f8", (PIECES,)),
        ("decode_base_s", "f8", (PIECES,)),
        ("decode_request_s", "f8", (PIECES,)),
        ("decode_context_s", "f8", (PIECES,)),
        ("dense_points", "i8"),
        ("dense_at", "f8", (DENSE + 1,)),
        ("dense_s", "f8", (DENSE,)),
        ("dense_rise", "f8", (DENSE,)),
        ("dense_hint", "u2", (HINTS,)),
        ("row_points", "i8"),
        ("row_at", "f8", (ROWS + 1,)),
        ("row_s", "f8", (ROWS,)),
        ("row_rise", "f8", (ROWS,)),
        ("row_hint", "u2", (HINTS,)),
        ("sequence_points", "i8"),
        ("sequence_at", "f8", (ROWS + 1,)),
        ("sequence_s", "f8", (ROWS,)),
        ("sequence_rise", "f8", (ROWS,)),
        ("sequence_hint", "u2", (HINTS,)),
        ("chunk_points", "i8"),
        ("chunk_at", "f8", (CHUNKS + 1,)),
        ("chunk_base_s", "f8", (CHUNKS,)),
        ("chunk_base_rise", "f8", (CHUNKS,)),
        ("chunk_each_s", "f8", (CHUNKS,)),
        ("chunk_each_rise", "f8", (CHUNKS,)),
        ("chunk_hint", "u2", (HINTS,)),
        ("batch_at", "f8", (BATCHES + 1,)),
        ("batch_base_s", "f8", (BATCHES,)),
        ("batch_base_rise", "f8", (BATCHES,)),
        ("batch_each_s", "f8", (BATCHES,)),
        ("batch_each_rise", "f8", (BATCHES,)),
        ("batch_hint", "u2", (HINTS,)),
        ("beside_points", "i8"),
        ("beside_at", "f8", (BESIDE + 1,)),
        ("beside_prompt_s", "f8", (BESIDE,)),
        ("beside_prompt_rise", "f8", (BESIDE,)),
        ("beside_hint", "u2", (HINTS,)),
        ("context_points", "i8"),
        ("context_at", "f8", (CONTEXTS + 1,)),
        ("context_hint", "u2", (HINTS,)),
        ("beside_s", "f8", (BESIDE, CONTEXTS, 4)),
        ("wake_points", "i8"),
        ("wake_at", "f8", (WAKES,)),
        ("wake_s", "f8", (WAKES,)),
        ("splits", "i8"),
        ("split_units", "i8", (SPLITS, 2)),
        ("split_decode_speed", "f8", (SPLITS,)),
        ("split_sizes", "i8", (SPLITS,)),
        ("split_size_at", "f8", (SPLITS, SIZES)),
        ("split_prompt_speed", "f8", (SPLITS, SIZES)),
    ],
    align=True,
)
"""One record a (model, device, tp, pp): what one device of one stage does, in FLOPs, bytes, seconds and watts.

``token_flops`` all layers of the stage for one token; ``row_flops`` and ``row_bytes`` the output matrix for one
row of logits; ``pair_flops`` one query-key pair; ``weight_bytes`` dense weights; ``expert_bytes`` one routed
expert over the stage's layers; ``log_miss`` ln(1 - k/E); ``exchange_*`` all-reduce or all-to-all of the stage;
``hop_*`` activations to the next stage. ``graph_tokens``: up to so many the tokens of a step are padded, see
``graphs.padded``; 0 for none.

A fit (``decode_pieces`` above 0) replaces all that makes up the time but the hops. Prompts take base + token x tokens
+ ``pair_s`` x pairs, decodes base + request x decodes + context x KV tokens, each by the last piece whose ``from`` is
not above the tokens or the decodes; a step of both takes the sum less ``shared_s``, what both would have counted.

Measurements (``dense_points`` above 0; then ``decode_pieces`` counts the points of ``batch_at``) are tables of seconds
of the stage, straight between their points: ``dense`` over all tokens, ``row`` over rows of logits and ``sequence``
over sequences on the last stage, ``chunk`` over prompt tokens and ``batch`` over decodes (both from 1 or less on):
base + each x mean keys of a query, ``beside`` over decodes and their mean context in a step that has prompts too, with
``beside_prompt_s`` a prompt token. ``*_at`` are the points, infinite behind the last; ``*_rise`` is what a unit beyond
a point adds, and ``beside_s`` has four values a cell: seconds, what a decode adds, what a token of context adds, and
how much more of the latter a decode adds. ``*_hint`` is where to look first, see ``measured_line.segment``.
``split_prompt_speed``, at ``split_sizes`` numbers of prompt tokens ``split_size_at``, and ``split_decode_speed`` are
those of the lanes on ``split_units``, beside each other.
"""


class Load(NamedTuple):
    """What a step carries.

    ``decodes`` requests with ``context`` KV tokens in all; ``prompt_tokens`` in chunks that make ``pairs``
    query-key pairs and read ``prefix`` KV tokens of earlier chunks; ``rows`` of logits; the ``longest`` context of a
    decode, 0 where all are as long.
    """

    decodes: int
    context: int
    prompt_tokens: int
    pairs: int
    prefix: int
    rows: int
    longest: int = 0


class Speed(NamedTuple):
    """Fraction of the device's full speed that a lane has: multiplying, reading weights, reading KV."""

    flops: float
    weights: float
    kv: float


@compiled
def full_speed() -> Speed:
    """The whole device."""
    return Speed(1.0, 1.0, 1.0)


@compiled
def chunk_pairs(start: int, tokens: int) -> int:
    """Query-key pairs of ``tokens`` prompt tokens that follow ``start`` earlier ones, under the causal mask."""
    return tokens * start + tokens * tokens // 2


class Line(NamedTuple):
    """Seconds of a step as its context grows: ``max(flops + flops_slope c, bytes + bytes_slope c) + fixed``.

    c is the context in KV tokens. Decode steps that follow each other differ in nothing else, so a run of them is a
    few additions a step.
    """

    flops: float
    flops_slope: float
    bytes: float
    bytes_slope: float
    fixed: float


@compiled
def at(line: Line, context: int) -> float:
    """Seconds of the step of ``line`` at a context of so many KV tokens."""
    return max(line.flops + line.flops_slope * context, line.bytes + line.bytes_slope * context) + line.fixed


@inlined
def _piece(starts: Any, pieces: int, value: float) -> int:
    """The last of so many pieces that starts at or below ``value``; the first if none does."""
    found = 0
    while found + 1 < pieces and value >= starts[found + 1]:
        found += 1
    return found


@inlined
def _fitted_line(cost: Any, load: Load, speed: Speed) -> Line:
    """The line of a fit: prompts slow down as multiplying does, decodes as reading weights and KV do.

    ``flops`` is the time of the prompts and ``bytes`` that of the whole step, so that ``step_joules`` can tell them
    apart.
    """
    prompts = decodes = slope = 0.0
    if load.prompt_tokens > 0:
        i = _piece(cost.prompt_from, cost.prompt_pieces, load.prompt_tokens)
        prompts = cost.prompt_base_s[i] + cost.prompt_token_s[i] * load.prompt_tokens + cost.pair_s * load.pairs
        prompts /= speed.flops
    if load.decodes > 0:
        i = _piece(cost.decode_from, cost.decode_pieces, load.decodes)
        decodes = (cost.decode_base_s[i] + cost.decode_request_s[i] * load.decodes) / speed.weights
        slope = cost.decode_context_s[i] / speed.kv
    seconds = prompts + decodes
    if load.prompt_tokens > 0 and load.decodes > 0:
        seconds -= cost.shared_s / max(speed.flops, speed.weights)
    return Line(prompts, 0.0, seconds, slope, 0.0)


@inlined
def _measured_line(cost: Any, load: Load, speed: Speed, last: bool) -> Line:
    """The line of measurements, in the terms of :func:`_fitted_line`."""
    parts = measured_parts(cost, load, speed, last)
    return Line(parts.prompts, 0.0, parts.whole, parts.context_s, 0.0)


@compiled
def stage_line(cost: Any, load: Load, speed: Speed, last: bool) -> Line:
    """The line of one stage for a step with the tokens of ``load``, whatever its context."""
    if cost.decode_pieces > 0:
        if cost.dense_points > 0:
            return _measured_line(cost, load, speed, last)
        return _fitted_line(cost, load, speed)
    tokens = load.decodes + load.prompt_tokens
    computed, rows = padded(cost, tokens), load.rows if last else 0
    flops = cost.token_flops * computed + cost.pair_flops * load.pairs + cost.row_flops * rows
    weights = cost.weight_bytes + cost.embedding_bytes * computed
    if cost.experts > 0.0:
        weights += cost.expert_bytes * cost.experts * (1.0 - math.exp(computed * cost.log_miss))
    if rows > 0:
        weights += cost.row_bytes
    flop_rate, kv_rate = cost.flop_rate * speed.flops, cost.byte_rate * speed.kv
    reading = weights / (cost.byte_rate * speed.weights) + cost.kv_bytes * (load.prefix + tokens) / kv_rate
    fixed = cost.overhead_s + cost.exchange_s + cost.exchange_token_s * computed
    return Line(flops / flop_rate, cost.pair_flops / flop_rate, reading, cost.kv_bytes / kv_rate, fixed)


@compiled
def stage_seconds(cost: Any, load: Load, speed: Speed, last: bool) -> float:
    """Seconds of one step on one stage: the slower of multiplying and reading, plus what is fixed."""
    return at(stage_line(cost, load, speed, last), load.context)


@compiled
def step_seconds(cost: Any, load: Load, speed: Speed) -> float:
    """Seconds that one step alone takes through all stages."""
    seconds = stage_seconds(cost, load, speed, True)
    if cost.stages > 1:
        hop = cost.hop_s + cost.hop_token_s * (load.decodes + load.prompt_tokens)
        seconds += (cost.stages - 1) * (stage_seconds(cost, load, speed, False) + hop)
    return seconds


@compiled
def wake_seconds(cost: Any, idle_s: float) -> float:
    """Seconds that a step takes more after ``idle_s`` seconds without one; between its points a straight line."""
    place = seconds = 0.0
    for i in range(cost.wake_points):
        later, more = cost.wake_at[i], cost.wake_s[i]
        if idle_s < later:
            return float(seconds + (more - seconds) * (idle_s - place) / (later - place))
        place, seconds = later, more
    return float(seconds)


@compiled
def step_joules(cost: Any, line: Line, context: int) -> float:
    """Energy above the idle draw of all devices of the replica for one step of ``line`` (at full speed).

    Power is the idle draw plus the shares of multiplying and of reading, each with its own full-load draw, under the
    power limit; a lane on a part of the device works longer at a part of the power.
    """
    multiplying, reading = line.flops + line.flops_slope * context, line.bytes + line.bytes_slope * context
    above = (cost.compute_w - cost.idle_w) * multiplying + (cost.memory_w - cost.idle_w) * reading
    return float(cost.devices * min((cost.limit_w - cost.idle_w) * at(line, context), above))
