"""Steps of few tokens, by the compiled pass and layer by layer: the same numbers, and the same KV."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("transformers")

from tiny import Run, reference, saved

from twofold.engine import narrow
from twofold.engine.blocked import BLOCK, NOWHERE
from twofold.engine.decoder import Decoder
from twofold.engine.linear import Packed
from twofold.engine.load import load
from twofold.engine.narrow import MOST_ROWS
from twofold.engine.walk import Work

READ = getattr(Packed(torch.randn(BLOCK, BLOCK), None), "blocks", NOWHERE) != NOWHERE
pytestmark = pytest.mark.skipif(not READ, reason="here oneDNN packs float32 in another way")

SIZES = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
    "head_dim": 16,
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "all biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "windows": ("mistral", {"sliding_window": 5}),
    "norms of queries and keys": ("qwen3", {}),
}
PROMPTS = [[(11 * number + 5 * i * i) % 128 for i in range(4 + 3 * number)] for number in range(4)]


def loaded(name: str, folder: Path) -> Decoder:
    family, changes = CASES[name]
    return load(saved(reference(family, **SIZES, **changes), folder)).decoder


def decoded(decoder: Decoder, steps: int) -> tuple[torch.Tensor, Run]:
    """Logits of some steps in which all sequences decode, fed with given tokens."""
    run, logits = Run(decoder), []
    for sequence, prompt in enumerate(PROMPTS):
        run.step((sequence, prompt, 0))
    for step in range(steps):
        items = [(i, [(17 * step + i) % 128], len(prompt) + step) for i, prompt in enumerate(PROMPTS)]
        logits.append(run.step(*items))
    return torch.stack(logits), run


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("name", CASES)
def test_it_is_the_decoder_layer_by_layer(name: str, threads: int, tmp_path: Path) -> None:
    decoder = loaded(name, tmp_path)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        assert decoder._narrow is not None
        found, tight = decoded(decoder, 5)
        decoder._narrow = None
        expected, wide = decoded(decoder, 5)
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(tight.pool.keys, wide.pool.keys, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(tight.pool.values, wide.pool.values, rtol=1e-4, atol=1e-4)


def test_threads_and_batch_mates_change_no_bit(tmp_path: Path) -> None:
    decoder, before = loaded("llama", tmp_path), torch.get_num_threads()
    run = Run(decoder)
    for sequence, prompt in enumerate(PROMPTS):
        run.step((sequence, prompt, 0))
    items = [(i, [20 + i], len(prompt)) for i, prompt in enumerate(PROMPTS)]
    batches = [run.batch(*items), run.batch(*items[:1])]
    hidden = [[], []]
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            for batch, found in zip(batches, hidden, strict=True):
                found.append(decoder.layers(decoder.embed(batch.tokens), batch, run.pool))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(each, hidden[0][0]) for each in hidden[0])
    assert all(torch.equal(each, hidden[0][0][:1]) for each in hidden[1])


def test_where_its_memory_lies_changes_no_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled loops come in two kinds, for arrays that may overlap and for those that do not: both count alike."""
    decoder, rng = loaded("llama", tmp_path), np.random.default_rng(5)
    run, arena = Run(decoder), np.empty(1 << 16, np.float32)
    for sequence, prompt in enumerate(PROMPTS):
        run.step((sequence, prompt, 0))
    batch = run.batch(*((i, [20 + i], len(prompt)) for i, prompt in enumerate(PROMPTS)))
    taken = decoder._narrow
    assert taken is not None
    work = taken._work

    def placed(*sizes: Any) -> Work:
        made = work(*sizes)
        arrays, at = list(made[:-1]), int(rng.integers(64))
        for which in rng.permutation(len(arrays)):
            place = arena[at : at + arrays[which].size].reshape(arrays[which].shape)
            place[...] = arrays[which]
            arrays[which], at = place, at + place.size + int(rng.choice([0, 1, 16]))
        return Work(*arrays, made.counter)

    monkeypatch.setattr(taken, "_work", placed)
    found = [decoder.layers(decoder.embed(batch.tokens), batch, run.pool).clone() for _ in range(300)]
    assert all(torch.equal(each, found[0]) for each in found)


def test_layers_may_be_run_in_slices(tmp_path: Path) -> None:
    decoder = loaded("llama", tmp_path)
    run = Run(decoder)
    run.step((0, PROMPTS[0], 0))
    batch = run.batch((0, [7], len(PROMPTS[0])))
    hidden = decoder.embed(batch.tokens)
    whole = decoder.layers(hidden, batch, run.pool)
    part = decoder.layers(hidden, batch, run.pool, 0, 2)
    assert torch.equal(decoder.layers(part, batch, run.pool, 2), whole)
    assert torch.equal(hidden, decoder.embed(batch.tokens))


def chunked(decoder: Decoder) -> tuple[torch.Tensor, Run]:
    """Logits of decodes beside prompt chunks, one with a prefix."""
    run, text = Run(decoder), [(5 * i * i + 3) % 128 for i in range(120)]
    first = run.step((0, text[:40], 0), (1, text[:3], 0))
    second = run.step((1, [9], 3), (0, text[40:57], 40), (2, text[:90], 0))
    return torch.cat([first, second, run.step((1, [10], 4), (0, [11], 57), (2, text[90:92], 90))]), run


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("name", CASES)
def test_prompt_chunks_are_those_layer_by_layer(name: str, threads: int, tmp_path: Path) -> None:
    decoder, before = loaded(name, tmp_path), torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        found, tight = chunked(decoder)
        decoder._narrow = None
        expected, wide = chunked(decoder)
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(tight.pool.keys, wide.pool.keys, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(tight.pool.values, wide.pool.values, rtol=1e-4, atol=1e-4)


def test_cuts_mates_and_threads_change_no_bit_of_a_prompt(tmp_path: Path) -> None:
    decoder, before = loaded("norms of queries and keys", tmp_path), torch.get_num_threads()
    text, logits = [(7 * i * i + 1) % 128 for i in range(50)], []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            logits.append(Run(decoder).step((0, text, 0))[0])
            for cut in (2, 17, 48):
                run = Run(decoder)
                run.step((0, text[:cut], 0), (1, text[:20], 0))
                logits.append(run.step((1, [3], 20), (0, text[cut:], cut))[-1])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(each, logits[0]) for each in logits)


def test_large_batches_are_not_narrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = loaded("llama", tmp_path)
    run, weights = Run(decoder), 64 * 64 + 2 * 32 * 64 + 64 * 64 + 3 * 64 * 128
    taken = decoder._narrow
    assert taken is not None
    assert taken.takes(run.batch((0, [7], 3), (1, [8], 5)), run.pool)
    mixed = run.batch((0, [7], 3), (1, [8, 9], 5))
    monkeypatch.setattr(narrow, "MOST_PRODUCTS", 3 * weights)
    assert taken.takes(mixed, run.pool)
    monkeypatch.setattr(narrow, "MOST_PRODUCTS", 3 * weights - 1)
    assert not taken.takes(mixed, run.pool)
    many = run.batch((0, [7], 3))._replace(tokens=torch.zeros(MOST_ROWS + 1, dtype=torch.int64), decodes=MOST_ROWS + 1)
    assert not taken.takes(many, run.pool)
    assert not taken.takes(run.batch((0, [7], 3)), Run(decoder, "bf16").pool)
