from typing import Any

import pytest

from twofold.engine.architecture import FAMILIES, architecture_of
from twofold.errors import SpecError

SIZES = {
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 4,
    "intermediate_size": 64,
    "vocab_size": 50,
}
SLIDING = ["full_attention", "sliding_attention", "full_attention", "sliding_attention"]


@pytest.mark.parametrize(
    ("config", "windows"),
    [
        ({"model_type": "llama"}, (0, 0, 0, 0)),
        ({"model_type": "mistral", "sliding_window": None}, (0, 0, 0, 0)),
        ({"model_type": "mistral", "sliding_window": 9}, (9, 9, 9, 9)),
        ({"model_type": "qwen2", "sliding_window": 9, "max_window_layers": 1}, (0, 0, 0, 0)),
        (
            {"model_type": "qwen2", "sliding_window": 9, "use_sliding_window": True, "max_window_layers": 1},
            (0, 9, 9, 9),
        ),
        (
            {"model_type": "qwen3", "sliding_window": 5, "use_sliding_window": True, "layer_types": SLIDING},
            (0, 5, 0, 5),
        ),
    ],
)
def test_windows_by_layer(config: dict[str, Any], windows: tuple[int, ...]) -> None:
    assert architecture_of({**SIZES, **config}, "m").windows == windows


@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_is_read(family: str) -> None:
    found = architecture_of({**SIZES, "model_type": family, "rms_norm_eps": 1e-5, "head_dim": 16}, "name")
    assert (found.model.name, found.epsilon, found.model.head_dim) == ("name", 1e-5, 16)
    assert found.model.qk_norm == (family == "qwen3")
    assert len(found.rope.frequencies) == 8


@pytest.mark.parametrize("family", [None, "mixtral", "qwen3_moe", "gemma2"])
def test_others_are_not(family: str | None) -> None:
    with pytest.raises(SpecError) as caught:
        architecture_of({**SIZES, "model_type": family}, "m")
    assert caught.value.field == "config.json model_type"
