"""How long a step takes by tables of measurements, compiled: what ``cost.step`` asks where a record has them."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twofold.compiled import inlined
from twofold.cost.graphs import padded

if TYPE_CHECKING:
    from twofold.cost.step import Load, Speed

FINE, COARSE, HINTS = 256, 16, 512


class Parts(NamedTuple):
    """Seconds of one stage: of its ``prompts``, of the ``whole`` step at no context, and for each KV token of context.

    ``whole`` holds the context already where the step has prompts: such a step does not go on to a longer one.
    """

    prompts: float
    whole: float
    context_s: float


@inlined
def bucket(value: float) -> int:
    """Which hint of a table is for ``value``: one for each whole number at first, then one for each ``COARSE``."""
    whole = int(value)
    return whole if whole < FINE else FINE + min(whole // COARSE, HINTS - FINE - 1)


@inlined
def segment(places: Any, hints: Any, value: float) -> int:
    """The last point that is not above ``value``; the first one if all are.

    The search begins at the hint of the bucket, which is not above any value in it, and ends at the infinity behind
    the points. Hints are unsigned: the compiler then knows that no index counts from the end.
    """
    i = np.int64(hints[bucket(value)])
    while value >= places[i + 1]:
        i += 1
    return int(i)


@inlined
def counted(places: Any, hints: Any, count: int) -> int:
    """:func:`segment` of a whole number: where each has a hint of its own, that is the one."""
    return int(hints[count]) if count < FINE else segment(places, hints, count)


@inlined
def past(places: Any, i: int, value: float) -> float:
    """How far ``value`` is beyond point ``i``: 0 before the first."""
    return float(max(0.0, value - places[i]))


@inlined
def _beside(cost: Any, load: "Load", mean: float) -> float:
    """Attention of the decodes, at a context of ``mean``, in a step that has prompts too."""
    i = counted(cost.beside_at, cost.beside_hint, load.decodes)
    j = segment(cost.context_at, cost.context_hint, mean)
    along, up = past(cost.beside_at, i, load.decodes), past(cost.context_at, j, mean)
    cell = cost.beside_s
    level = cell[i, j, 0] + along * cell[i, j, 1]
    prompt = cost.beside_prompt_s[i] + along * cost.beside_prompt_rise[i]
    return float(level + prompt * load.prompt_tokens + up * (cell[i, j, 2] + along * cell[i, j, 3]))


@inlined
def measured_parts(cost: Any, load: "Load", speed: "Speed", last: bool) -> Parts:
    """The parts of a step with the tokens of ``load``.

    Prompts slow down as multiplying does, what decodes read of the weights and of the KV each in its own way.
    """
    tokens, prompts, attention, beside, slope, uneven = load.decodes + load.prompt_tokens, 0.0, 0.0, 0.0, 0.0, 0.0
    slowed = 1.0 / (speed.flops if load.prompt_tokens > 0 else speed.weights)
    computed = padded(cost, tokens)
    i = counted(cost.dense_at, cost.dense_hint, computed)
    whole = cost.dense_s[i] + past(cost.dense_at, i, computed) * cost.dense_rise[i]
    if load.prompt_tokens > 0:
        i = counted(cost.chunk_at, cost.chunk_hint, load.prompt_tokens)
        along, mean = load.prompt_tokens - cost.chunk_at[i], load.pairs / load.prompt_tokens
        attention = cost.chunk_base_s[i] + along * cost.chunk_base_rise[i]
        attention += (cost.chunk_each_s[i] + along * cost.chunk_each_rise[i]) * mean
        prompts = (whole * (load.prompt_tokens / tokens) + attention) * slowed
    if load.decodes > 0:
        longer = cost.longest_share * max(0, load.longest * load.decodes - load.context)
        if load.prompt_tokens > 0 and cost.beside_points > 0:
            beside = _beside(cost, load, (load.context + longer) / load.decodes)
        else:
            i = counted(cost.batch_at, cost.batch_hint, load.decodes)
            along = load.decodes - cost.batch_at[i]
            attention += cost.batch_base_s[i] + along * cost.batch_base_rise[i]
            slope = (cost.batch_each_s[i] + along * cost.batch_each_rise[i]) / (load.decodes * speed.kv)
            uneven = slope * longer
    if last:
        if load.rows > 0 and cost.row_points > 0:
            i = counted(cost.row_at, cost.row_hint, load.rows)
            whole += cost.row_s[i] + past(cost.row_at, i, load.rows) * cost.row_rise[i]
        if cost.sequence_points > 0:
            sequences = max(load.rows, load.decodes + (load.prompt_tokens > 0))
            i = counted(cost.sequence_at, cost.sequence_hint, sequences)
            whole += cost.sequence_s[i] + past(cost.sequence_at, i, sequences) * cost.sequence_rise[i]
    fixed = cost.overhead_s + cost.exchange_s + cost.exchange_token_s * computed
    whole = (whole + attention) * slowed + (uneven + fixed)
    return Parts(prompts, whole + beside * slowed, slope)
