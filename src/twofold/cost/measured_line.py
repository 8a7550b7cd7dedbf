"""How long a step takes by tables of measurements, compiled: what ``cost.step`` asks where a record has them."""

from typing import TYPE_CHECKING, Any, NamedTuple

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
def segment(places: Any, hints: Any, points: int, value: float) -> int:
    """The first point of the segment that holds ``value``: the last segment beyond the end, the first before it.

    The search begins at the hint of the bucket, which is not above any value in it.
    """
    i = int(hints[bucket(value)])
    while i + 2 < points and value >= places[i + 1]:
        i += 1
    return i


@inlined
def share(places: Any, i: int, value: float) -> float:
    """How far ``value`` is along the segment from point ``i``: 0 before it, above 1 beyond it."""
    return float(max(0.0, (value - places[i]) / (places[i + 1] - places[i])))


@inlined
def between(values: Any, i: int, part: float) -> float:
    """The value at ``part`` of the segment from point ``i``."""
    return float(values[i] + part * (values[i + 1] - values[i]))


@inlined
def _looked_up(places: Any, hints: Any, values: Any, points: int, value: float) -> float:
    if points == 0:
        return 0.0
    i = segment(places, hints, points, value)
    return between(values, i, share(places, i, value))


@inlined
def _beside(cost: Any, load: "Load", mean: float) -> float:
    """Attention of the decodes, at a context of ``mean``, in a step that has prompts too."""
    decodes = float(load.decodes)
    i = segment(cost.beside_at, cost.beside_hint, cost.beside_points, decodes)
    j = segment(cost.context_at, cost.context_hint, cost.context_points, mean)
    along, up = share(cost.beside_at, i, decodes), share(cost.context_at, j, mean)
    grid = cost.beside_s
    lower = grid[i, j] + up * (grid[i, j + 1] - grid[i, j])
    higher = grid[i + 1, j] + up * (grid[i + 1, j + 1] - grid[i + 1, j])
    return float(lower + along * (higher - lower) + between(cost.beside_prompt_s, i, along) * load.prompt_tokens)


@inlined
def measured_parts(cost: Any, load: "Load", speed: "Speed", last: bool) -> Parts:
    """The parts of a step with the tokens of ``load``.

    Prompts slow down as multiplying does, what decodes read of the weights and of the KV each in its own way.
    """
    tokens, prompts, attention, slope, uneven = load.decodes + load.prompt_tokens, 0.0, 0.0, 0.0, 0.0
    computed = padded(cost, tokens)
    whole = _looked_up(cost.dense_at, cost.dense_hint, cost.dense_s, cost.dense_points, computed)
    if load.prompt_tokens > 0:
        i = segment(cost.chunk_at, cost.chunk_hint, cost.chunk_points, load.prompt_tokens)
        along, mean = share(cost.chunk_at, i, load.prompt_tokens), load.pairs / load.prompt_tokens
        attention = between(cost.chunk_base_s, i, along) + between(cost.chunk_each_s, i, along) * mean
        prompts = (whole * load.prompt_tokens / tokens + attention) / speed.flops
    if load.decodes > 0:
        mean = load.context / load.decodes
        further = cost.longest_share * max(0.0, load.longest - mean)
    if load.decodes > 0 and load.prompt_tokens > 0 and cost.beside_points > 0:
        attention += _beside(cost, load, mean + further)
    elif load.decodes > 0:
        i = segment(cost.batch_at, cost.batch_hint, cost.decode_pieces, load.decodes)
        along = share(cost.batch_at, i, load.decodes)
        attention += between(cost.batch_base_s, i, along)
        slope = between(cost.batch_each_s, i, along) / (load.decodes * speed.kv)
        uneven = slope * load.decodes * further
    if last:
        if load.rows > 0:
            whole += _looked_up(cost.row_at, cost.row_hint, cost.row_s, cost.row_points, load.rows)
        sequences = max(load.rows, load.decodes + (load.prompt_tokens > 0))
        whole += _looked_up(cost.sequence_at, cost.sequence_hint, cost.sequence_s, cost.sequence_points, sequences)
    whole = (whole + attention) / (speed.flops if load.prompt_tokens > 0 else speed.weights)
    fixed = cost.overhead_s + cost.exchange_s + cost.exchange_token_s * computed
    return Parts(prompts, whole + uneven + fixed, slope)
