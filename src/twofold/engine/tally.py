"""What the engine counts: for metrics, and for whoever decides about admission or routing."""

from typing import Any

from twofold.engine.decisions import kind_of
from twofold.scheduler.state import UNLIMITED, Scheduler


class Tally:
    """Counts of steps and tokens since the start, and the state of the scheduler.

    ``stats``: ``running``, ``waiting`` (requests), ``waiting_by_reason`` (``batch``: the batch is full, ``memory``:
    the first lacks blocks, ``order``: its turn has not come), ``kv_usage`` (share of blocks in use), ``preemptions``,
    ``prefix_queries`` and ``prefix_hits`` (prompt tokens admitted, and those of them that were reused), ``steps``,
    ``step_tokens`` (by kind: prompt, decode), ``steps_by_kind``, ``budget_tokens`` of a step, where it has one.
    """

    def __init__(self, s: Scheduler) -> None:
        self._s = s
        self._tokens = {"prompt": 0, "decode": 0}
        self._kinds = {"prompt": 0, "decode": 0, "mixed": 0}

    def step(self, lane: int) -> None:
        """A step has been run, and is not committed yet."""
        step = self._s.steps[lane]
        self._tokens["prompt"] += int(step.prompt_tokens)
        self._tokens["decode"] += int(step.decodes)
        self._kinds[kind_of(int(step.prompts), int(step.decodes))] += 1

    def stats(self) -> dict[str, Any]:
        """All counts."""
        replica = self._s.replicas[0]
        waiting, reused = int(replica.waiting), int(replica.reused_tokens)
        counts = {
            "running": int(replica.started + replica.decoding),
            "waiting": waiting,
            "waiting_by_reason": {self._reason(): waiting} if waiting else {},
            "kv_usage": float(1 - replica.free_blocks / replica.total_blocks),
            "preemptions": int(replica.preemptions),
            "prefix_queries": int(replica.prefilled_tokens) + reused,
            "prefix_hits": reused,
            "steps": sum(self._kinds.values()),
            "steps_by_kind": dict(self._kinds),
            "step_tokens": dict(self._tokens),
        }
        if replica.token_budget < UNLIMITED:
            counts["budget_tokens"] = int(replica.token_budget)
        return counts

    def _reason(self) -> str:
        """Why the first that waits does."""
        replica = self._s.replicas[0]
        if replica.started + replica.decoding >= replica.max_batch:
            return "batch"
        first = self._s.requests[replica.queue]
        return "memory" if first.target > replica.free_blocks * replica.block_tokens else "order"
