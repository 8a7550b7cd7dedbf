"""A GGUF file turned once into an ordinary checkpoint folder, in the user's cache under the hash of its content."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from twofold.compiled import cache_root
from twofold.engine.gguf_file import GgufFile
from twofold.engine.gguf_tokenizer import tokenizer_config, tokenizer_of
from twofold.engine.weights import INDEX

VERSION = 1
"""Of the conversion: another one does not find the folders of this one."""
SHARD_BYTES = 1 << 30


def converted(path: Path, tell: Callable[[float], None]) -> Path:
    """The folder for this file, written unless it is there. ``tell`` hears the share that is done.

    It appears in one move once it is complete, so that a process that dies or runs beside this one does no harm.
    """
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()[:24]
    folder = cache_root() / "models" / f"{digest}-{VERSION}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        _write(GgufFile(path), unfinished, tell)
        unfinished.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def _write(file: GgufFile, folder: Path, tell: Callable[[float], None]) -> None:
    _save_json(folder / "config.json", file.config())
    _save_json(folder / "tokenizer_config.json", tokenizer_config(file))
    tokenizer_of(file).save(str(folder / "tokenizer.json"))
    places: dict[str, str] = {}
    shard: dict[str, Tensor] = {}
    for name, value, share in file.tensors():
        shard[name] = value
        if sum(tensor.nbytes for tensor in shard.values()) >= SHARD_BYTES or share == 1.0:
            title = f"model-{len(set(places.values())) + 1:05}.safetensors"
            save_file(shard, folder / title, {"format": "pt"})
            places |= dict.fromkeys(shard, title)
            shard = {}
        tell(share)
    _save_json(folder / INDEX, {"metadata": {}, "weight_map": places})


def _save_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1))
