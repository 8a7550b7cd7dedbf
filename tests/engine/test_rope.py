from typing import Any

import pytest
import torch
from tiny import LLAMA3, YARN

from twofold.engine.pointwise import turned
from twofold.engine.rope import Rope, rope_of
from twofold.errors import SpecError

GIVEN: list[dict[str, Any]] = [
    {"rope_type": "default", "rope_theta": 500.0},
    {"rope_type": "linear", "rope_theta": 10000.0, "factor": 3.0},
    LLAMA3,
    YARN,
    {**YARN, "attention_factor": 1.5, "beta_fast": 16, "beta_slow": 2},
    {**YARN, "mscale": 0.7, "mscale_all_dim": 1.1, "truncate": False},
]


def _plain(config: Any, device: str) -> tuple[torch.Tensor, float]:
    return config.rope_parameters["rope_theta"] ** (-torch.arange(0, 32, 2).float() / 32), 1.0


@pytest.mark.parametrize("given", GIVEN)
def test_frequencies_are_those_of_transformers(given: dict[str, Any]) -> None:
    transformers = pytest.importorskip("transformers")
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    config = transformers.LlamaConfig(
        hidden_size=64, num_attention_heads=2, max_position_embeddings=128, rope_parameters=dict(given)
    )
    compute = ROPE_INIT_FUNCTIONS.get(given["rope_type"]) or _plain
    expected, magnitude = compute(config, "cpu")
    rope = rope_of({"max_position_embeddings": 128, "rope_parameters": given}, 32)
    torch.testing.assert_close(rope.frequencies, expected, rtol=1e-6, atol=0.0)
    assert rope.magnitude == pytest.approx(magnitude)


def test_older_fields_mean_the_same() -> None:
    older = {"rope_theta": 777.0, "rope_scaling": {"type": "linear", "factor": 2.0}}
    newer = {"rope_parameters": {"rope_theta": 777.0, "rope_type": "linear", "factor": 2.0}}
    assert torch.equal(rope_of(older, 16).frequencies, rope_of(newer, 16).frequencies)


def test_listed_divisors_divide() -> None:
    divisors = [1.0, 2.0, 4.0, 8.0]
    scaling = {"rope_type": "longrope", "short_factor": divisors, "long_factor": divisors}
    expected = rope_of({}, 8).frequencies / torch.tensor(divisors)
    assert torch.equal(rope_of({"rope_scaling": scaling}, 8).frequencies, expected)


def test_turning_keeps_lengths_and_depends_on_distance_alone() -> None:
    query, key = torch.randn(2, 1, 3, 16, generator=torch.Generator().manual_seed(4))
    rope = rope_of({}, 16)

    def product(first: int, second: int) -> torch.Tensor:
        heads = [turned(x, *rope.angles(torch.tensor([at]))) for x, at in ((query, first), (key, second))]
        torch.testing.assert_close(heads[0].norm(dim=-1), query.norm(dim=-1))
        return (heads[0] * heads[1]).sum(-1)

    torch.testing.assert_close(product(9, 4), product(105, 100), rtol=1e-4, atol=1e-4)
    assert torch.equal(turned(query, *Rope(rope.frequencies).angles(torch.tensor([0]))), query)


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, "config.json rope_type"),
        ({"rope_scaling": {"rope_type": "linear"}}, "config.json rope factor"),
        ({"partial_rotary_factor": 0.5}, "config.json partial_rotary_factor"),
        (
            {"rope_scaling": {"type": "longrope", "long_factor": [2.0], "short_factor": [1.0]}},
            "config.json rope long_factor",
        ),
    ],
)
def test_what_is_not_known_is_refused(config: dict[str, Any], field: str) -> None:
    with pytest.raises(SpecError) as caught:
        rope_of(config, 16)
    assert caught.value.field == field
