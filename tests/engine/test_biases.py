import math

import torch

from twofold.engine.biases import Biases
from twofold.engine.params import Params

VOCAB = 8


def test_only_the_rows_of_requests_with_a_bias_move():
    biases = Biases(ends=[7])
    biases.add(0, Params(logit_bias={1: 2.0, 4: -100.0}))
    biases.add(1, Params())
    biases.add(2, Params(logit_bias={1: 0.5}))
    logits = torch.zeros(3, VOCAB)
    biases.move(logits, [2, 1, 0])
    assert logits.tolist() == [[0, 0.5, 0, 0, 0, 0, 0, 0], [0.0] * 8, [0, 2.0, 0, 0, -100.0, 0, 0, 0]]


def test_ends_are_ruled_out_until_enough_tokens_are_there():
    biases = Biases(ends=[7])
    biases.add(0, Params(min_tokens=3, stop_ids=(2,)))
    biases.add(1, Params(min_tokens=1))
    logits = torch.zeros(3, VOCAB)
    biases.ban(logits, [0, 1, 0], [2, 1, 3])
    assert [torch.nonzero(row == -math.inf).flatten().tolist() for row in logits] == [[2, 7], [], []]


def test_nothing_is_left_of_a_request_that_is_dropped():
    biases = Biases(ends=[7])
    biases.add(0, Params(logit_bias={1: 2.0}, min_tokens=3))
    biases.drop(0)
    biases.drop(0)
    logits = torch.zeros(1, VOCAB)
    biases.move(logits, [0])
    biases.ban(logits, [0], [0])
    assert not logits.any()
