"""Schedulers of a few replicas and requests, without a clock."""

from typing import Any

import numpy as np

import twofold
from twofold.scheduler.state import Scheduler
from twofold.simulate.build import build_scheduler
from twofold.spec import catalog
from twofold.spec.workload import Workload


def scheduler(text: str, prompts: list[int], outputs: list[int] | None = None, **columns: Any) -> Scheduler:
    """The arrays of a deployment of Llama-3-8B on H100; request i arrives at i seconds unless it is said otherwise."""
    arrivals = columns.pop("arrival_s", np.arange(len(prompts), dtype=float))
    workload = Workload("small", arrivals, prompts, outputs or [8] * len(prompts), **columns)
    model = catalog.model("llama-3-8b")
    return build_scheduler(workload, twofold.deployment(text, model=model, device="H100"), model, None, 0.02)


def with_prefixes(rows: list[list[int]], hash_tokens: int) -> dict[str, Any]:
    """Prefix ids of each request as columns of a workload."""
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    return {"hash_tokens": hash_tokens, "hash_start": starts, "hash_ids": np.array([i for row in rows for i in row])}
