import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.engine.params import Params
from twofold.engine.penalties import Penalties

VOCAB = 12
ids = st.lists(st.integers(0, VOCAB - 1), max_size=8)
params = st.builds(
    Params,
    repetition_penalty=st.sampled_from([1.0, 0.5, 1.7]),
    presence_penalty=st.sampled_from([0.0, -1.0, 1.5]),
    frequency_penalty=st.sampled_from([0.0, 0.25, -2.0]),
)


def by_the_book(logits, asked, prompt, output):
    result = logits.astype(np.float64)
    for token in set(prompt) | set(output):
        result[token] *= 1 / asked.repetition_penalty if result[token] > 0 else asked.repetition_penalty
    for token in output:
        result[token] -= asked.frequency_penalty
    for token in set(output):
        result[token] -= asked.presence_penalty
    return result


@settings(deadline=None)
@given(st.lists(st.tuples(params, ids, ids, ids), min_size=1, max_size=5), st.integers(0, 2**31))
def test_equals_the_slow_reference(requests, seed):
    penalties = Penalties()
    slots = [3 * index for index in range(len(requests))]
    for slot, (asked, prompt, written, _) in zip(slots, requests, strict=True):
        penalties.add(slot, asked, prompt, written)
    for step in range(8):
        active = [index for index, request in enumerate(requests) if len(request[3]) > step]
        tokens = torch.tensor([requests[index][3][step] for index in active], dtype=torch.int64)
        penalties.count(tokens, [slots[index] for index in active])
    logits = np.random.default_rng(seed).normal(size=(len(requests), VOCAB)).astype(np.float32)
    expected = [
        by_the_book(row, asked, prompt, written + later)
        for row, (asked, prompt, written, later) in zip(logits, requests, strict=True)
    ]
    found = torch.from_numpy(logits.copy())
    penalties.apply(found, slots)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_long_histories():
    penalties, vocab = Penalties(), 500
    penalties.add(0, Params(repetition_penalty=2.0, frequency_penalty=0.5), list(range(300)), [*range(200, 400)] * 2)
    logits = torch.ones(1, vocab)
    penalties.apply(logits, [0])
    expected = [(0.5 if token < 400 else 1.0) - (1.0 if 200 <= token < 400 else 0.0) for token in range(vocab)]
    assert logits[0].tolist() == expected


def test_a_place_is_clean_for_the_next_request():
    penalties = Penalties()
    penalties.add(0, Params(presence_penalty=1.0), [1], [2, 3])
    penalties.drop(0)
    penalties.add(1, Params(presence_penalty=1.0, repetition_penalty=2.0), [5])
    logits = torch.ones(2, VOCAB)
    penalties.apply(logits, [0, 1])
    assert logits[0].tolist() == [1.0] * VOCAB
    assert logits[1].tolist() == [0.5 if token == 5 else 1.0 for token in range(VOCAB)]


def test_a_row_without_a_token_counts_nothing():
    penalties = Penalties()
    penalties.add(0, Params(presence_penalty=1.0), [])
    penalties.count(torch.tensor([-1]), [0])
    logits = torch.zeros(1, VOCAB)
    penalties.apply(logits, [0])
    assert not logits.any()
