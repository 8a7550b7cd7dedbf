"""The lecture's paper GPU: a step of Llama-3-8B on one H100, by the product's roofline with its defaults."""

from collections.abc import Sequence
from functools import cache

import numpy as np

from twofold.cost.roofline import cost_record
from twofold.cost.step import Load, chunk_pairs, full_speed, step_seconds
from twofold.spec import catalog


@cache
def _record() -> np.recarray:
    return cost_record(catalog.model("llama-3-8b"), catalog.device("H100"))


def llama_step(
    prompts: Sequence[tuple[int, int]] = (), decode_contexts: Sequence[int] = (), *, ending: bool = True
) -> float:
    """Seconds of a step with ``prompts`` as (start, tokens) and decodes by context.

    ``ending`` prompts need logits; a chunk in the middle of its prompt does not.
    """
    load = Load(
        decodes=len(decode_contexts),
        context=sum(decode_contexts),
        prompt_tokens=sum(tokens for _, tokens in prompts),
        pairs=sum(chunk_pairs(start, tokens) for start, tokens in prompts),
        prefix=sum(start for start, _ in prompts),
        rows=len(decode_contexts) + (len(prompts) if ending else 0),
    )
    return float(step_seconds(_record()[0], load, full_speed()))


def prompt_seconds(tokens: int, chunk: int) -> float:
    """Seconds to prefill a prompt alone, a step a chunk; only the last chunk needs logits."""
    starts = range(0, tokens, chunk)
    return sum(llama_step([(start, min(chunk, tokens - start))], ending=start + chunk >= tokens) for start in starts)
