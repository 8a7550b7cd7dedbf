"""Names, folders and files that no worker could load."""

import json

import pytest

from twofold.errors import SpecError
from twofold.serve.model_files import check_model

CONFIG = {
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 258,
    "max_position_embeddings": 512,
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "model.safetensors").touch()
    return tmp_path


def test_what_may_be_a_model_passes(folder):
    for where in (str(folder), "smollm2", "Qwen/Qwen3-0.6B"):
        check_model(where)
    (folder / "a.gguf").write_bytes(b"GGUF\x03\x00\x00\x00")
    check_model(str(folder / "a.gguf"))


@pytest.mark.parametrize("name", ["nonsense", "", "a/b/c", "./nowhere/model", "nowhere.gguf", "org/nowhere.gguf"])
def test_a_name_of_nothing_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError, match=r"^model: "):
        check_model(name)


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_folder_that_lacks_a_file_is_refused(folder, file):
    (folder / file).unlink()
    with pytest.raises(SpecError, match=file.partition(".")[2]):
        check_model(str(folder))


@pytest.mark.parametrize("text", ["{", "[]", '{"model_type": "llama"}', '{"model_type": "llama", "hidden_size": "x"}'])
def test_a_damaged_config_is_refused(folder, text):
    (folder / "config.json").write_text(text)
    with pytest.raises(SpecError):
        check_model(str(folder))


def test_a_file_that_is_no_gguf_is_refused(tmp_path):
    (tmp_path / "a.gguf").write_bytes(b"PK\x03\x04")
    with pytest.raises(SpecError, match="GGUF"):
        check_model(str(tmp_path / "a.gguf"))
