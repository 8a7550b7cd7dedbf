"""Which tokens stay in the draw (top-k, top-p, min-p), and the draw.

Every filter keeps the likeliest tokens, so it comes down to one number a row: the lowest logit that stays. Tokens that
are exactly as likely as the last one kept stay as well, so the result depends on nothing but the row.
"""

import torch
from torch import Tensor

LOOKS = 256, 4096
"""A nucleus is looked for among so many of the likeliest tokens, and only if it is larger among all of them."""


def floors(logits: Tensor, top_k: Tensor, top_p: Tensor, min_p: Tensor) -> Tensor:
    """The lowest logit [R, 1] that stays, of ``logits`` [R, V] whose largest is 0 in each row.

    ``top_k`` int64[R] is V where it is off, ``top_p`` 1, ``min_p`` 0. ``min_p`` is a share of the likeliest token's
    probability; ``top_p`` is a share of what the other two leave (Holtzman et al., 2020, section 3.1).
    """
    lowest = min_p.log().unsqueeze(-1)
    vocab = logits.shape[-1]
    limited = torch.nonzero(top_k < vocab).squeeze(-1)
    if len(limited):
        best = logits[limited].topk(int(top_k[limited].max())).values
        last = best.gather(-1, top_k[limited].unsqueeze(-1) - 1)
        lowest[limited] = torch.maximum(lowest[limited], last)
    rows = torch.nonzero(top_p < 1).squeeze(-1)
    return _nucleus_floors(logits, lowest, rows, top_p) if len(rows) else lowest


def draw(logits: Tensor, lowest: Tensor, chances: Tensor) -> Tensor:
    """One token a row, int64[R], by inverse distribution function at ``chances`` float64[R] in [0, 1).

    ``logits`` [R, V] has 0 as the largest of each row; what is below ``lowest`` [R, 1] is left out. The order is that
    of the vocabulary and the sums are in double precision, so a row's token does not depend on the other rows.
    """
    sums = logits.exp().masked_fill_(logits < lowest, 0.0).cumsum(-1, dtype=torch.float64)
    return torch.searchsorted(sums, chances.unsqueeze(-1) * sums[:, -1:], right=True).squeeze(-1)


def _nucleus_floors(logits: Tensor, lowest: Tensor, rows: Tensor, top_p: Tensor) -> Tensor:
    vocab = logits.shape[-1]
    part, floor = logits[rows], lowest[rows]
    wanted = part.exp().masked_fill_(part < floor, 0.0).sum(-1, keepdim=True, dtype=torch.float64)
    wanted *= top_p[rows].unsqueeze(-1)
    for look in (*LOOKS, vocab):
        best = part.topk(min(look, vocab)).values
        last, reached = _cut(best, floor, wanted)
        lowest[rows] = torch.where(reached, last, floor)
        unsure = ~(reached | (best[:, -1:] <= floor)).squeeze(-1)
        if look >= vocab or not unsure.any():
            break
        rows, part, floor, wanted = rows[unsure], part[unsure], floor[unsure], wanted[unsure]
    return lowest


def _cut(best: Tensor, floor: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """The last logit [R, 1] of ``best`` [R, K] that the ``wanted`` mass needs, and whether K are enough to reach it."""
    sums = best.exp().masked_fill_(best < floor, 0.0).cumsum(-1, dtype=torch.float64)
    last = torch.searchsorted(sums, wanted)
    return best.gather(-1, last.clamp(max=best.shape[-1] - 1)), last < best.shape[-1]


def scale(logits: Tensor, largest: Tensor, temperature: Tensor) -> Tensor:
    """``logits`` [R, V], moved in place so that their ``largest`` [R] is 0, then over ``temperature`` [R]."""
    return logits.sub_(largest.unsqueeze(-1)).div_(temperature.unsqueeze(-1))
