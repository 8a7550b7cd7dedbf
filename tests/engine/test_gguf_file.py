from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")

import gguf
from ggufs import TOKENS, permuted, written
from tiny import reference

from twofold.engine.gguf_file import GgufFile, unpermuted
from twofold.errors import SpecError

SIZES = {"vocab_size": len(TOKENS), "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 96}


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_tensors_and_sizes_are_those_of_the_model(family: str, tmp_path: Path) -> None:
    model = reference(family, **SIZES)
    file = GgufFile(written(tmp_path / "m.gguf", model))
    found = list(file.tensors())
    expected = model.state_dict()
    assert {name for name, _, _ in found} == set(expected)
    for name, value, _ in found:
        assert torch.equal(value, expected[name])
    shares = [share for _, _, share in found]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    config, theirs = file.config(), model.config.to_dict()
    same = ("hidden_size", "vocab_size", "num_key_value_heads", "intermediate_size", "num_hidden_layers")
    assert {name: config[name] for name in same} == {name: theirs[name] for name in same}
    assert config["rope_parameters"]["rope_theta"] == theirs["rope_parameters"]["rope_theta"]
    assert config["rms_norm_eps"] == pytest.approx(theirs["rms_norm_eps"])
    assert not config["tie_word_embeddings"]


@pytest.mark.parametrize("kind", ["Q4_1", "Q8_0", "F16", "BF16"])
def test_quantised_tensors_are_near_and_16_bits_stay(kind: str, tmp_path: Path) -> None:
    model = reference("qwen2", **SIZES)
    form = gguf.GGMLQuantizationType[kind]
    expected = model.state_dict()
    for name, value, _ in GgufFile(written(tmp_path / "m.gguf", model, kind=form)).tensors():
        near = {"Q4_1": 0.2, "Q8_0": 0.02, "F16": 1e-3, "BF16": 1e-2}[kind]
        torch.testing.assert_close(value.float(), expected[name], atol=near, rtol=near)
        wide = value.ndim == 1 or kind.startswith("Q")
        assert value.dtype == (torch.float32 if wide else {"F16": torch.float16, "BF16": torch.bfloat16}[kind])


@pytest.mark.parametrize(("heads", "shape"), [(2, (16, 5)), (6, (48,)), (1, (8, 3))])
def test_the_order_of_rows_is_undone(heads: int, shape: tuple[int, ...]) -> None:
    value = torch.randn(shape)
    assert torch.equal(unpermuted(permuted(value, heads), heads), value)
    assert not torch.equal(permuted(value, heads), value)


@pytest.mark.parametrize(
    ("fields", "named"),
    [({"llama__rope__scaling__type": "longrope"}, "GGUF rope.scaling.type")],
)
def test_what_cannot_be_read_is_named(fields: dict[str, Any], named: str, tmp_path: Path) -> None:
    file = GgufFile(written(tmp_path / "m.gguf", reference("llama", **SIZES), **fields))
    with pytest.raises(SpecError) as caught:
        file.config()
    assert caught.value.field == named


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.gguf").write_text("no GGUF at all, but long enough to hold a header")
    with pytest.raises(SpecError, match="accepted: a GGUF file"):
        GgufFile(tmp_path / "text.gguf")
    writer = gguf.GGUFWriter(tmp_path / "other.gguf", "mamba")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(SpecError, match="mamba"):
        GgufFile(tmp_path / "other.gguf")
