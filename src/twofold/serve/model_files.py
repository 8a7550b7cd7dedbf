"""What is certainly no model, told before a worker is started for it."""

from pathlib import Path

from twofold.errors import SpecError
from twofold.spec.embedded import EMBEDDED, is_embedded
from twofold.spec.hf import model_from_config

ACCEPTED = f"accepted: a folder with a config.json, a .gguf file, a hub id such as Qwen/Qwen3-0.6B, or {EMBEDDED}"
GGUF = b"GGUF"
NEEDED = ("tokenizer.json", "*.safetensors")


def check_model(where: str) -> None:
    """SpecError for a name, a folder or a file that no worker could load; nothing is fetched and no weight is read.

    What only the engine knows, such as which architectures it runs, the worker says.
    """
    path = Path(where).expanduser()
    if path.is_dir():
        _check_folder(path, where)
    elif not is_embedded(where):
        _check_name(path, where)


def _check_folder(folder: Path, where: str) -> None:
    if not (folder / "config.json").is_file():
        raise SpecError("model", where, ACCEPTED)
    model_from_config(folder)
    for pattern in NEEDED:
        if not any(folder.glob(pattern)):
            raise SpecError("model", where, f"accepted: a folder with {pattern} in it")


def _check_name(path: Path, where: str) -> None:
    if path.suffix == ".gguf":
        if not path.is_file():
            raise SpecError("model", where, "there is no such file")
        with path.open("rb") as file:
            if file.read(len(GGUF)) != GGUF:
                raise SpecError("model", where, "accepted: a GGUF file")
    elif where.count("/") != 1 or where.startswith((".", "/", "~")):
        raise SpecError("model", where, ACCEPTED)
