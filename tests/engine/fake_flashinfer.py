"""FlashInfer's two paged wrappers, by their documentation and without a device: strict about what they are given."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import torch
from fake_cuda import opaque, recording


class _Wrapper:
    def __init__(self, float_workspace_buffer: torch.Tensor, kv_layout: str = "NHD") -> None:
        assert kv_layout == "NHD"
        assert float_workspace_buffer.dtype == torch.uint8
        assert not float_workspace_buffer.any(), "it must be zero at first"
        self.scratch = float_workspace_buffer
        self.plans = 0

    def _plan(self, pages: tuple[torch.Tensor, ...], shape: tuple[int, ...], window_left: int, dtypes: Any) -> None:
        assert not recording(), "a plan cannot be made while a graph is captured"
        assert all(part.dtype == torch.int32 and part.is_contiguous() for part in pages)
        indptr, indices, last = pages
        assert len(indptr) == len(last) + 1
        assert int(indptr[-1]) == len(indices)
        assert ((last >= 1) & (last <= shape[3])).all()
        self.heads, self.kv_heads, self.width, self.page = shape
        self.window_left, self.dtypes = window_left, dtypes
        self.plans += 1

    def _attend(self, query: torch.Tensor, item: int, rows: slice, cache: Any, out: torch.Tensor, pages: Any) -> None:
        """Rows of one item, the last of them at the end of its context."""
        indptr, indices, last = pages
        blocks = indices[indptr[item] : indptr[item + 1]].long()
        length = (len(blocks) - 1) * self.page + int(last[item])
        keys, values = (side[blocks].flatten(0, 1)[:length].double() for side in cache)
        many = rows.stop - rows.start
        for row in range(many):
            end = length - many + row + 1
            begin = 0 if self.window_left < 0 else max(0, end - 1 - self.window_left)
            for head in range(self.heads):
                own = head // (self.heads // self.kv_heads)
                scores = keys[begin:end, own] @ query[rows.start + row, head].double() / self.width**0.5
                out[rows.start + row, head] = (scores.softmax(0) @ values[begin:end, own]).to(out.dtype)

    def _checked(self, query: torch.Tensor, cache: Any, out: torch.Tensor) -> None:
        assert query.is_contiguous()
        assert out.is_contiguous()
        assert query.shape[1:] == (self.heads, self.width)
        assert {query.dtype, cache[0].dtype, cache[1].dtype} == set(self.dtypes)
        assert all(side.shape[1:] == (self.page, self.kv_heads, self.width) for side in cache)


class BatchDecodeWithPagedKVCacheWrapper(_Wrapper):
    def __init__(
        self,
        float_workspace_buffer: torch.Tensor,
        kv_layout: str = "NHD",
        use_cuda_graph: bool = False,
        use_tensor_cores: bool = False,
        paged_kv_indptr_buffer: torch.Tensor | None = None,
        paged_kv_indices_buffer: torch.Tensor | None = None,
        paged_kv_last_page_len_buffer: torch.Tensor | None = None,
    ) -> None:
        super().__init__(float_workspace_buffer, kv_layout)
        self.tensor_cores, self.graph = use_tensor_cores, use_cuda_graph
        self.pages = paged_kv_indptr_buffer, paged_kv_indices_buffer, paged_kv_last_page_len_buffer
        assert use_cuda_graph == all(buffer is not None for buffer in self.pages)

    def plan(
        self, indptr, indices, last_page_len, num_qo_heads, num_kv_heads, head_dim, page_size, *,
        window_left=-1, q_data_type="float16", kv_data_type=None,
    ) -> None:  # fmt: skip
        given, shape = (indptr, indices, last_page_len), (num_qo_heads, num_kv_heads, head_dim, page_size)
        self._plan(given, shape, window_left, (q_data_type, kv_data_type))
        if not self.graph:
            self.pages = given
            return
        assert len(last_page_len) == len(self.pages[2]), "the batch of a graph is fixed"
        assert len(indices) <= len(self.pages[1]), "the buffer is too small"
        for buffer, part in zip(self.pages, given, strict=True):
            buffer[: len(part)].copy_(part)

    def run(self, q: torch.Tensor, paged_kv_cache: Any, *, out: torch.Tensor) -> torch.Tensor:
        self._checked(q, paged_kv_cache, out)

        def attend() -> None:
            for item in range(len(self.pages[2])):
                self._attend(q, item, slice(item, item + 1), paged_kv_cache, out, self.pages)

        opaque(attend)
        return out


class BatchPrefillWithPagedKVCacheWrapper(_Wrapper):
    def plan(
        self, qo_indptr, paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len, num_qo_heads, num_kv_heads,
        head_dim_qk, page_size, *, causal=False, window_left=-1, q_data_type="float16", kv_data_type=None,
    ) -> None:  # fmt: skip
        assert causal
        assert qo_indptr.dtype == torch.int32
        assert qo_indptr[0] == 0
        self.starts, self.pages = qo_indptr, (paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len)
        shape = num_qo_heads, num_kv_heads, head_dim_qk, page_size
        self._plan(self.pages, shape, window_left, (q_data_type, kv_data_type))

    def run(self, q: torch.Tensor, paged_kv_cache: Any, *, out: torch.Tensor) -> torch.Tensor:
        self._checked(q, paged_kv_cache, out)
        assert len(q) == self.starts[-1]
        for item in range(len(self.starts) - 1):
            rows = slice(int(self.starts[item]), int(self.starts[item + 1]))
            self._attend(q, item, rows, paged_kv_cache, out, self.pages)
        return out


def install(monkeypatch: Any) -> None:
    """Put it in the place of the package."""
    module: Any = ModuleType("flashinfer")
    module.__spec__ = ModuleSpec("flashinfer", None)
    module.BatchDecodeWithPagedKVCacheWrapper = BatchDecodeWithPagedKVCacheWrapper
    module.BatchPrefillWithPagedKVCacheWrapper = BatchPrefillWithPagedKVCacheWrapper
    monkeypatch.setitem(sys.modules, "flashinfer", module)
