"""The KV pool of one replica: fixed blocks of tokens for all layers, allocated once."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from twofold.errors import SpecError
from twofold.spec.model import Model

TORCH_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def torch_dtype(name: str | torch.dtype) -> torch.dtype:
    """The dtype of this name, fp32 or bf16; SpecError for any other."""
    if isinstance(name, torch.dtype):
        name = next((known for known, dtype in TORCH_DTYPES.items() if dtype is name), str(name))
    if name not in TORCH_DTYPES:
        raise SpecError("dtype", name, f"the engine computes in {' or '.join(TORCH_DTYPES)}")
    return TORCH_DTYPES[name]


class Pool:
    """Keys and values, each a tensor [layers, blocks, block tokens, KV heads, head width] in one dtype.

    The place of a token is ``block * block_tokens + offset``. Who owns which block is the scheduler's affair. The last
    ``spare`` of the blocks given are nobody's, and not among ``keys`` and ``values``: what only pads a step goes there.
    """

    def __init__(self, keys: Tensor, values: Tensor, spare: int = 0) -> None:
        self.blocks, self.block_tokens, self.spare = keys.shape[1] - spare, keys.shape[2], spare
        self.keys, self.values = (side[:, : self.blocks] if spare else side for side in (keys, values))
        self._pages = [(keys[i], values[i]) for i in range(len(keys))]
        self._flat = [(keys[i].flatten(0, 1), values[i].flatten(0, 1)) for i in range(len(keys))]
        self._arrays = [(_array(keys[i]), _array(values[i])) for i in range(len(keys))] if keys.device == CPU else []

    @classmethod
    def sized(
        cls,
        model: Model,
        dtype: str | torch.dtype,
        device: str | torch.device = "cpu",
        *,
        memory_bytes: int = 0,
        blocks: int = 0,
        block_tokens: int = 16,
    ) -> Pool:
        """A pool of so many blocks, or of as many as fit in ``memory_bytes``; on CUDA with a spare one.

        SpecError where neither or both are given, and where the memory does not hold one block.
        """
        dtype = torch_dtype(dtype)
        block_bytes = cls.block_bytes(model, dtype, block_tokens)
        if bool(memory_bytes) == bool(blocks):
            raise SpecError("blocks", blocks, "give either the blocks of a pool or its memory_bytes")
        where = torch.device(device)
        spare = int(where.type == "cuda")
        count = blocks or memory_bytes // block_bytes - spare
        if count < 1:
            raise SpecError("memory_bytes", memory_bytes, f"a block of {block_tokens} tokens needs {block_bytes} bytes")
        shape = (model.layers, count + spare, block_tokens, model.kv_heads, model.head_dim)
        return cls(_empty(shape, dtype, where), _empty(shape, dtype, where), spare)

    @staticmethod
    def block_bytes(model: Model, dtype: str | torch.dtype, block_tokens: int = 16) -> int:
        """Bytes of one block, keys and values of all layers."""
        numbers = 2 * model.layers * block_tokens * model.kv_heads * model.head_dim
        return numbers * torch_dtype(dtype).itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the whole pool."""
        return self.keys.nbytes + self.values.nbytes

    def flat(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values of one layer by place: two views [blocks * block tokens, KV heads, head width]."""
        return self._flat[layer]

    def pages(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer, spare blocks last: two tensors [blocks, block tokens, KV heads, head width]."""
        return self._pages[layer]

    def arrays(self, layer: int) -> tuple[Any, Any]:
        """The memory of one layer as NumPy arrays [blocks, block tokens, KV heads, head width], bf16 as uint16."""
        return self._arrays[layer]


CPU = torch.device("cpu")


def _empty(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Memory not yet written. On a CPU it is from NumPy, which asks the system for huge pages."""
    if device != CPU:
        return torch.empty(shape, dtype=dtype, device=device)
    bits = np.empty(shape, np.float32 if dtype == torch.float32 else np.uint16)
    return torch.from_numpy(bits).view(dtype)


def _array(part: Tensor) -> Any:
    return part.numpy() if part.dtype == torch.float32 else part.view(torch.uint16).numpy()
