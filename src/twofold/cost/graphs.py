"""CUDA graphs: a step of few tokens runs as the next larger size that was captured, all but its attention.

The sizes are those that vLLM captures by default (``CompilationConfig.cudagraph_capture_sizes`` in its documentation):
1, 2, 4, every multiple of 8 below 256 and of 16 from there on, up to ``max_cudagraph_capture_size``, which is twice the
most sequences of a step and at most 512.
"""

from typing import Any

from twofold.compiled import inlined

LARGEST = 512
FIRST, FINE_STEP, FINE_END, COARSE_STEP = (1, 2, 4), 8, 248, 16


def default_graph_tokens(max_batch: int) -> int:
    """The largest size that vLLM captures when nobody says otherwise, for steps of ``max_batch`` sequences at most."""
    return captured(min(2 * max_batch, LARGEST))


def captured(most: int) -> int:
    """The largest size of the default list that is at most ``most``; 0 below 1."""
    if most < FINE_STEP:
        return max((size for size in FIRST if size <= most), default=0)
    step = COARSE_STEP if most >= FINE_END + FINE_STEP else FINE_STEP
    return most // step * step


@inlined
def padded(cost: Any, tokens: int) -> int:
    """Tokens that the layers of a step compute: the next captured size, or ``tokens`` beyond the largest."""
    if tokens > cost.graph_tokens or tokens <= 2:
        return tokens
    if tokens <= 4:
        return 4
    step = FINE_STEP if tokens <= FINE_END else COARSE_STEP
    return (tokens + step - 1) // step * step
