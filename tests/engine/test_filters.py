import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.engine import filters


def by_the_book(row, top_k, top_p, min_p):
    """The ids that stay, found token by token, with chances rounded as in the filter: a cut may fall anywhere."""
    chance = torch.from_numpy(row).exp().double().numpy()
    least = torch.tensor(min_p).log().item()
    kept = [token for token in np.argsort(-row, kind="stable") if row[token] >= least]
    kept = [token for token in kept if row[token] >= row[kept[min(top_k, len(kept)) - 1]]]
    if top_p < 1:
        reached, last, wanted = 0.0, None, top_p * chance[kept].sum()
        for token in kept:
            reached, last = reached + chance[token], token
            if reached >= wanted:
                break
        kept = [token for token in kept if row[token] >= row[last]]
    return sorted(kept)


def kept(logits, top_k, top_p, min_p):
    columns = (torch.tensor(top_k), torch.tensor(top_p, dtype=torch.float64), torch.tensor(min_p))
    stays = logits >= filters.floors(logits, *columns)
    return [torch.nonzero(row).flatten().tolist() for row in stays]


@settings(deadline=None)
@given(st.data(), st.integers(0, 2**31), st.sampled_from([7, 300, 900]), st.sampled_from([0.01, 1.0, 8.0]))
def test_keeps_what_the_slow_reference_keeps(data, seed, vocab, spread):
    rows = data.draw(st.integers(1, 4))
    top_k = data.draw(st.lists(st.sampled_from([1, 2, 5, vocab]), min_size=rows, max_size=rows))
    top_p = data.draw(st.lists(st.sampled_from([0.05, 0.5, 0.97, 1.0]), min_size=rows, max_size=rows))
    min_p = data.draw(st.lists(st.sampled_from([0.0, 0.03, 0.6]), min_size=rows, max_size=rows))
    raw = torch.from_numpy(np.random.default_rng(seed).normal(size=(rows, vocab)).astype(np.float32))
    logits = filters.scale(raw, raw.amax(-1), torch.full((rows,), 1 / spread))
    expected = [by_the_book(*each) for each in zip(logits.numpy(), top_k, top_p, min_p, strict=True)]
    assert kept(logits, top_k, top_p, min_p) == expected


def test_equally_likely_tokens_stay_together():
    logits = torch.zeros(1, 600)
    assert len(kept(logits, [3], [1.0], [0.0])[0]) == 600
    assert len(kept(logits, [600], [0.5], [0.0])[0]) == 600


@pytest.mark.parametrize(("vocab", "top_p"), [(3000, 0.5), (9000, 0.3), (9000, 0.9)])
def test_a_wide_nucleus_is_found_beyond_the_first_looks(vocab, top_p):
    logits = -torch.arange(vocab, dtype=torch.float32)[None] / 1e5
    found = kept(logits, [vocab], [top_p], [0.0])[0]
    assert len(found) > filters.LOOKS[top_p == 0.9]
    assert found == by_the_book(logits[0].numpy(), vocab, top_p, 0.0)


def test_draw_is_the_inverse_distribution_function():
    logits = torch.tensor([[0.5, 0.0, 0.25, 0.25]]).log()
    chances = torch.tensor([0.0, 0.4999, 0.5, 0.7499, 0.75, 1 - 2**-52], dtype=torch.float64)
    tokens = filters.draw(logits.expand(6, 4), torch.full((6, 1), -torch.inf), chances)
    assert tokens.tolist() == [0, 0, 2, 2, 3, 3]


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**31))
def test_what_is_ruled_out_is_never_drawn(seed):
    random = np.random.default_rng(seed)
    logits = torch.from_numpy(random.normal(size=(64, 40)).astype(np.float32) * 30)
    logits[torch.from_numpy(random.random((64, 40)) < 0.5)] = -torch.inf
    logits[:, 11] = 0.0
    chances = torch.from_numpy(random.choice([0.0, 0.5, 1 - 2**-52], size=64))
    logits -= logits.amax(-1, keepdim=True)
    tokens = filters.draw(logits, torch.full((64, 1), -torch.inf), chances)
    assert torch.isfinite(logits.gather(-1, tokens[:, None])).all()
