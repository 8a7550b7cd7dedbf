"""Where measured sets are: the published ones, or some made by hand."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

DATA = Path(__file__).parents[3] / "shared" / "data"
META = {
    "vllm_version": "0.19.0",
    "engine_kwargs": {"max_num_seqs": 64, "max_num_batched_tokens": 512, "tensor_parallel_size": 1},
    "kv_cache": {"num_gpu_blocks": 1001, "block_size": 16, "gpu_memory_utilization": 0.9},
    "hardware": {"device_total_memory_bytes": 25250627584},
}


@pytest.fixture
def data() -> Path:
    """The folder of published sets."""
    if not DATA.is_dir():
        pytest.skip("the shared data are not here")
    return DATA


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """Writes a run with its requests and gives its folder."""

    def make(requests: Sequence[dict[str, Any]], **meta: Any) -> Path:
        folder = tmp_path / "vllm_runs" / "made"
        (folder / "vllm").mkdir(parents=True)
        (folder / "vllm" / "meta.json").write_text(json.dumps(META | meta))
        (folder / "vllm" / "requests.jsonl").write_text("".join(json.dumps(each) + "\n" for each in requests))
        return folder

    return make
