"""A measured run of vLLM, as LLMServingSim's bench records it: when each request arrived, started and ended.

``vllm/requests.jsonl`` has ``arrival_time`` on the client's clock and the engine's times on its own; the two are laid
over each other where the way from client to engine was shortest.
"""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.cost.graphs import default_graph_tokens
from twofold.errors import SpecError
from twofold.spec.workload import Workload

Floats = NDArray[np.float64]
COLUMNS = ("arrival_time", "queued_ts", "scheduled_ts", "first_token_ts", "last_token_ts", "input_toks", "output_toks")


@dataclass(frozen=True)
class VllmRun:
    """Arrays have one entry a request, in order of arrival. Seconds from the first arrival; tokens."""

    name: str
    meta: dict[str, Any]
    arrival_s: Floats
    scheduled_s: Floats
    first_s: Floats
    last_s: Floats
    prompt: NDArray[np.int32]
    output: NDArray[np.int32]

    @property
    def ttft_s(self) -> Floats:
        """Arrival to first token, the queue included."""
        return self.first_s - self.arrival_s

    @property
    def tpot_s(self) -> Floats:
        """Mean gap between tokens."""
        return np.asarray((self.last_s - self.first_s) / np.maximum(self.output - 1, 1))

    @property
    def e2e_s(self) -> Floats:
        """Arrival to last token."""
        return self.last_s - self.arrival_s

    @cached_property
    def workload(self) -> Workload:
        """The requests, each of a content of its own: a preempted one finds its blocks again, no other does."""
        block = self.block_tokens
        pieces = (self.prompt + self.output) // block
        start = np.concatenate([[0], np.cumsum(pieces)])
        ids = np.arange(start[-1]) + 1
        return Workload(
            self.name, self.arrival_s, self.prompt, self.output, hash_tokens=block, hash_start=start, hash_ids=ids
        ).validate()

    @property
    def block_tokens(self) -> int:
        """Tokens of a KV block."""
        return int(self.meta.get("kv_cache", {}).get("block_size") or 16)

    @property
    def kv_tokens(self) -> int | None:
        """KV tokens of an instance, if the run tells: its blocks but one, which vLLM keeps for itself."""
        blocks = self.meta.get("kv_cache", {}).get("num_gpu_blocks")
        return None if blocks is None else (int(blocks) - 1) * self.block_tokens

    @property
    def graph_tokens(self) -> int:
        """Tokens of the largest CUDA graph: vLLM's default for the run's sequences; 0 where it was told to use none."""
        engine = self.meta.get("engine_kwargs", {})
        return 0 if engine.get("enforce_eager") else default_graph_tokens(int(engine.get("max_num_seqs") or 256))

    def crowded_steps(self, budget: int) -> int:
        """Plans that admitted whole prompts, and began one more, of more tokens than a step takes.

        It shows prompts that share their text: what is cached takes no tokens of the step.
        """
        _, plan = np.unique(self.scheduled_s, return_inverse=True)
        taken = np.bincount(plan, self.prompt)
        last = np.zeros(len(taken))
        last[plan] = self.prompt
        return int((taken - last >= budget).sum())


def read_vllm_run(folder: Path) -> VllmRun:
    """The run of ``folder``; SpecError for one without the files or the columns."""
    try:
        meta = json.loads((folder / "vllm" / "meta.json").read_text(encoding="utf-8"))
        lines = (folder / "vllm" / "requests.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines if line.strip()]
        columns = {name: np.array([row[name] for row in rows], np.float64) for name in COLUMNS}
        if not all(np.isfinite(values).all() for values in columns.values()):
            raise ValueError("a time or a length is missing")
    except OSError as error:
        raise SpecError("vllm", str(error.filename), f"cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise SpecError("vllm", folder.name, f"accepted: rows with {', '.join(COLUMNS)} ({error})") from None
    if not rows or not isinstance(meta, dict):
        raise SpecError("vllm", folder.name, "accepted: one request or more, and their meta.json")
    return _on_one_clock(folder.name, meta, columns)


def _on_one_clock(name: str, meta: dict[str, Any], columns: dict[str, Floats]) -> VllmRun:
    order = np.argsort(columns["arrival_time"], kind="stable")
    ordered = {column: values[order] for column, values in columns.items()}
    arrival = ordered["arrival_time"]
    apart = float((ordered["queued_ts"] - arrival).min())
    start = float(arrival[0]) + apart
    return VllmRun(
        name,
        meta,
        arrival + apart - start,
        ordered["scheduled_ts"] - start,
        ordered["first_token_ts"] - start,
        ordered["last_token_ts"] - start,
        ordered["input_toks"].astype(np.int32),
        ordered["output_toks"].astype(np.int32),
    )
