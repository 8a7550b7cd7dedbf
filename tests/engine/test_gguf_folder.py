from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers")

from ggufs import END, TOKENS, written
from tiny import Run, reference

from twofold.engine import gguf_folder
from twofold.engine.load import load

SIZES = {"vocab_size": len(TOKENS), "eos_token_id": END}


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TWOFOLD_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_a_converted_model_computes_the_same(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf_folder, "SHARD_BYTES", 1 << 15)
    model = reference(family, **SIZES)
    told: list[tuple[str, float]] = []
    loaded = load(written(tmp_path / "m.gguf", model), progress=lambda text, share: told.append((text, share)))
    prompt = [5, 80, 200, 31, 7]
    with torch.inference_mode():
        expected = model(torch.tensor([prompt])).logits[:, -1]
    torch.testing.assert_close(Run(loaded.decoder).step((0, prompt, 0)), expected, rtol=1e-5, atol=1e-4)
    assert (loaded.name, loaded.eos_ids, loaded.context) == ("m", {END}, 256)
    assert loaded.chat_template == "{{ messages[0].content }}"
    assert len(list(loaded.tokenizer_files.glob("*.safetensors"))) > 1
    assert [share for text, share in told if text == "converting GGUF"][-1] == 1.0


def test_a_second_time_reads_what_is_there(tmp_path: Path) -> None:
    path = written(tmp_path / "m.gguf", reference("llama", **SIZES))
    shares: list[float] = []
    first = gguf_folder.converted(path, shares.append)
    written_at = (first / "config.json").stat().st_mtime_ns
    assert shares
    shares.clear()
    moved = path.rename(tmp_path / "renamed.gguf")
    assert gguf_folder.converted(moved, shares.append) == first
    assert (first / "config.json").stat().st_mtime_ns == written_at
    assert not shares


def test_a_conversion_that_dies_leaves_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "m.gguf", reference("llama", **SIZES))

    def die(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gguf_folder.converted(path, die)
    assert list((tmp_path / "cache" / "models").iterdir()) == []
    assert gguf_folder.converted(path, lambda share: None).is_dir()
