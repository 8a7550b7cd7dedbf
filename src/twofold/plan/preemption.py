"""Tokens that a preempted request gets from prefill instead of a decode step: what they may take off a bound.

A preempted request prefills its prompt and what it has generated once more, and that gives its next token. Where
prompts run elsewhere than decodes (on a prefill replica, on the other lane), this is work that the decodes are spared.
It cannot happen often. A request that decodes asks for one block, and only when its context fills those that it holds:
so at most once for each multiple of the block size in its context, since a preempted request comes back beyond it. A
victim frees a block, and then the asking is over, unless all its blocks are full and shared: then its own multiple is
passed without having asked. So there are no more preemptions in all than multiples.
"""

import math
from collections.abc import Sequence

import numpy as np

from twofold.plan.demand import Floats
from twofold.plan.work import Work


def most_preempted(works: Sequence[Work], faults: bool) -> float:
    """How many tokens of all requests decode replicas (``works``, one a group) may be spared at most."""
    if faults:
        return math.inf
    sizes = {work.group.block_tokens for work in works if _can_run_out(work)}
    return float(sum(_multiples(works[0], size) for size in sizes))


def spared(tokens: float, each_s: Floats, decodes: Floats) -> float:
    """Seconds that so many tokens take at most, when one of request i takes ``each_s[i]`` and it has ``decodes[i]``."""
    if tokens == 0.0:
        return 0.0
    order = np.argsort(-each_s)
    taken = np.clip(tokens - np.cumsum(decodes[order]) + decodes[order], 0.0, decodes[order])
    return float((taken * np.maximum(0.0, each_s[order])).sum())


def _multiples(work: Work, size: int) -> float:
    """Contexts in decode steps that are a multiple of ``size``."""
    prompt, decodes = work.traffic.prompt, work.traffic.decodes
    found = np.floor((prompt + decodes - 1.0) / size) - np.ceil(prompt / size) + 1.0
    return float(np.maximum(0.0, np.where(decodes > 0, found, 0.0)).sum())


def _can_run_out(work: Work) -> bool:
    """Whether requests that grow may find no block: not when the largest batch of the longest ones has room."""
    group, traffic = work.group, work.traffic
    if group.admission == "reserve":
        return False
    blocks = np.ceil((traffic.prompt + traffic.decodes + 1.0) / group.block_tokens)
    largest = np.sort(blocks[blocks <= work.kv_tokens // group.block_tokens])[-group.max_batch :]
    return bool(largest.sum() > work.kv_tokens // group.block_tokens)
