"""From what a sampler reports to what a request is given."""

import math
from typing import NamedTuple

import torch

from twofold.engine.outputs import row_logprobs
from twofold.engine.sampling import Sampled, Top

TOKENS = torch.tensor([5, 6, 7])


class Row(NamedTuple):
    chosen: float
    top: list[tuple[int, float]]


def test_only_rows_that_ask_are_reported():
    logprobs = torch.tensor([-0.5, math.nan, -2.0])
    top = Top(
        torch.tensor([[5, 3], [-1, -1], [4, -1]]), torch.tensor([[-0.5, -1.0], [math.nan] * 2, [-0.25, math.nan]])
    )
    assert row_logprobs(Sampled(TOKENS, logprobs, top)) == [
        [Row(-0.5, [(5, -0.5), (3, -1.0)])],
        None,
        [Row(-2.0, [(4, -0.25)])],
    ]


def test_the_chosen_token_alone():
    logprobs = torch.tensor([-0.5, -1.0, -2.0])
    assert row_logprobs(Sampled(TOKENS, logprobs, None)) == [[Row(value, [])] for value in (-0.5, -1.0, -2.0)]


def test_nobody_asks():
    assert row_logprobs(Sampled(TOKENS, None, None)) == [None, None, None]
