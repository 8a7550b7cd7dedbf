from functools import partial

import numpy as np
import pytest
import torch

from twofold.engine import paged

GROUP, WIDTH, KV_HEADS = 2, 32, 2


@pytest.mark.parametrize("stored", ["fp32", "bf16"])
def test_compiled_code_and_plain_python_agree(stored: str) -> None:
    rng = np.random.default_rng(2)
    keys = rng.standard_normal((5, 4, KV_HEADS, WIDTH)).astype(np.float32)
    if stored == "bf16":
        keys = torch.from_numpy(keys).bfloat16().view(torch.uint16).numpy()
    query = rng.standard_normal((2, GROUP * KV_HEADS, WIDTH)).astype(np.float32)
    tables, contexts = np.array([[3, 1, 4], [2, 0, 0]]), np.array([11, 3])
    results = []
    for plain in (False, True):
        score, mix = paged.scorer(GROUP, WIDTH), paged.mixer(GROUP, WIDTH)
        if plain:
            score = partial(paged.score_shares.py_func, group=GROUP, width=WIDTH)
            mix = partial(paged.mix_shares.py_func, group=GROUP, width=WIDTH)
        scores, out = np.zeros((2, query.shape[1], 11), np.float32), np.empty_like(query)
        score(query, keys, tables, contexts, 6, np.float32(0.2), scores, 2, 0, 1)
        mix(keys, tables, contexts, 6, scores, out, 2, 0, 1)
        results.append((scores, out))
    for compiled, plain in zip(*results, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-5, atol=1e-6)


def test_exponentials_are_a_softmax() -> None:
    scores = np.linspace(-80, 30, 200, dtype=np.float32).reshape(1, 2, 100)
    exact = np.exp(scores[0, 1, 10:90].astype(np.float64) - float(scores[0, 1, 89]))
    before = scores.copy()
    paged.exponentials(scores, 0, 1, 10, 90)
    np.testing.assert_allclose(scores[0, 1, 10:90], exact / exact.sum(), rtol=4e-6)
    scores[0, 1, 10:90] = before[0, 1, 10:90]
    assert np.array_equal(scores, before)


@pytest.mark.parametrize(("heads", "parts"), [(3, 1), (3, 2), (8, 3), (4, 4)])
def test_the_heads_of_an_item_are_dealt_once(heads: int, parts: int) -> None:
    shares = [paged.share(unit, parts, heads) for unit in range(3 * parts)]
    dealt = [(item, head) for item, low, high in shares for head in range(low, high)]
    assert dealt == [(item, head) for item in range(3) for head in range(heads)]
