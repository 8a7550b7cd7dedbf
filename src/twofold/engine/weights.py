"""The tensors of a checkpoint folder: safetensors files, mapped and not read until used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from twofold.errors import SpecError

INDEX = "model.safetensors.index.json"
IGNORED = ("rotary_emb.inv_freq", "lm_head.weight")
"""Endings of tensors that may be there unused: frequencies, and an output matrix tied to the embedding."""


class Weights:
    """Tensors by name, in one dtype on one device. Each is taken once; ``all_taken`` finds those that nobody knows."""

    def __init__(self, files: dict[str, Any], folder: Path, dtype: torch.dtype, device: torch.device) -> None:
        self._files, self._folder, self._dtype, self._device = files, folder, dtype, device
        self._left = set(files)

    def take(self, name: str, *shape: int) -> Tensor:
        """The tensor of this name; SpecError where it is missing or has another shape."""
        if name not in self._files:
            raise SpecError(f"tensor {name}", None, f"the checkpoint in {self._folder} lacks it")
        found: Tensor = self._files[name].get_tensor(name)
        if tuple(found.shape) != shape:
            raise SpecError(f"tensor {name}", list(found.shape), f"config.json says {list(shape)}")
        self._left.discard(name)
        return found.to(self._device, self._dtype)

    def maybe(self, name: str, *shape: int) -> Tensor | None:
        """The tensor of this name, None where there is none."""
        return self.take(name, *shape) if name in self._files else None

    def all_taken(self) -> None:
        """SpecError for a tensor that was not taken: the checkpoint is of another architecture."""
        unknown = sorted(name for name in self._left if not name.endswith(IGNORED))
        if unknown:
            raise SpecError(f"tensor {unknown[0]}", f"one of {len(unknown)}", "the engine does not know this tensor")


@contextmanager
def opened(folder: Path, dtype: torch.dtype, device: torch.device) -> Iterator[Weights]:
    """The weights of a folder, for as long as the context lasts; SpecError for a broken or absent file."""
    files: dict[str, Any] = {}
    for path in _paths(folder):
        try:
            file = safe_open(path, "pt")
        except (SafetensorError, OSError) as error:
            raise SpecError("weights", str(path), f"accepted: a safetensors file ({error})") from None
        files.update(dict.fromkeys(file.keys(), file))  # type: ignore[no-untyped-call]
    yield Weights(files, folder, dtype, device)


def _paths(folder: Path) -> list[Path]:
    index = folder / INDEX
    if index.is_file():
        return [folder / name for name in sorted(set(json.loads(index.read_text())["weight_map"].values()))]
    found = sorted(folder.glob("*.safetensors"))
    if not found:
        raise SpecError("weights", str(folder), "accepted: a folder with safetensors files")
    return found
