"""Lecture 7, exercise 3: a token budget against 300 decodes, asked of the scheduler itself."""

from collections.abc import Iterator

import numpy as np

from twofold.figures.row import Comparison, text
from twofold.scheduler.policies import chunked
from twofold.scheduler.queue import enqueue
from twofold.scheduler.state import Scheduler
from twofold.scheduler.step import clear_step, commit
from twofold.simulate.build import build_scheduler
from twofold.spec import catalog
from twofold.spec.notation import parse_deployment
from twofold.spec.workload import Workload

DECODES, PROMPT = 300, 4096


def decoding() -> Scheduler:
    """One chunked replica on which 300 requests decode and nobody waits; its budget let all of them start."""
    tokens = np.array([1] * DECODES + [PROMPT], dtype=np.int32)
    workload = Workload("starvation", np.zeros(len(tokens)), tokens, np.full(len(tokens), 1000, np.int32))
    deployment = parse_deployment("1B,chunked=512,batch=512", model="llama-3-8b", device="H100")
    s = build_scheduler(workload, deployment, catalog.model("llama-3-8b"), None, None)
    for slot in range(DECODES):
        enqueue(s, 0, slot)
    while s.replicas[0].decoding < DECODES:
        fill(s)
        commit(s, 0, 0, 1)
    return s


def fill(s: Scheduler) -> None:
    """Fill the next step."""
    clear_step(s, 0)
    chunked(s, 0, 0)


def prompt_tokens(budget: int) -> int:
    """Prompt tokens that the next step takes of a new request under ``budget``."""
    s = decoding()
    s.replicas[0].token_budget = budget
    enqueue(s, 0, DECODES)
    fill(s)
    return int(s.steps[0].prompt_tokens)


def exercise_3() -> Iterator[Comparison]:
    """What 300 decodes leave of a budget, and the least budget that leaves anything."""
    for budget, printed in ((256, 0), (512, 212)):
        what = f"prompt tokens a step beside {DECODES} decodes, budget {budget}"
        yield text(str(budget), what, printed, prompt_tokens(budget))
    least = next(budget for budget in range(DECODES - 2, DECODES + 8) if prompt_tokens(budget) > 0)
    inputs = "least budget with a prompt token in every step"
    what = "budget needed to make progress on prompts"
    yield Comparison("least", what, f"above {DECODES}", str(least), None, least > DECODES, inputs)
